"""The stages that will run, and what each of them costs."""

from __future__ import annotations

from dlcca.engine.planning import kernel, metric, neighborhoods, spectrum
from dlcca.engine.planning.sizes import Sizes
from dlcca.engine.planning.stage import FILE_SELECTIONS, StagePlan


def counted_stages(sizes: Sizes) -> list[StagePlan]:
    """The stages that will run, by arithmetic alone."""
    stages = [
        _scan(sizes),
        _moments(sizes),
        neighborhoods.landmarks(sizes),
        neighborhoods.points(sizes),
        neighborhoods.axes(sizes),
        neighborhoods.near(sizes),
        neighborhoods.shards(sizes),
        neighborhoods.merged(sizes),
        neighborhoods.neighborhoods(sizes),
        neighborhoods.asked(sizes),
        metric.members(sizes),
        metric.metric(sizes),
        metric.chance(sizes),
        kernel.passes("units", sizes, sizes.unit_passes),
        kernel.kernel(sizes),
        kernel.passes("bandwidth", sizes, sizes.bandwidth_passes),
        spectrum.gram(sizes),
        spectrum.spectrum(sizes),
        spectrum.coordinates(sizes),
        spectrum.signs(sizes),
        spectrum.embedding(sizes),
        spectrum.checks(sizes),
        spectrum.finish(sizes),
    ]
    return [stage for stage in stages if stage.tasks]


def _scan(sizes: Sizes) -> StagePlan:
    held = sizes.reading_bytes + 1.5 * sizes.block_bytes
    return StagePlan("scan", sizes.n_blocks, reads=sizes.pass_bytes, memory=held)


def _moments(sizes: Sizes) -> StagePlan:
    blocks = sizes.n_blocks
    return StagePlan("moments", 1, selections=FILE_SELECTIONS * blocks, memory=blocks * sizes.width * 64.0)
