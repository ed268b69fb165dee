"""The features that a recipe asks for, of windows of so many samples."""

from __future__ import annotations

from dlcca.errors import SettingsError
from dlcca.recordings.features import Feature
from dlcca.recordings.features.bandpower import BandPower, given_bands, usual_bands
from dlcca.recordings.features.covariance import Covariances
from dlcca.recordings.features.raw import RawSamples
from dlcca.recordings.features.spectrogram import Spectrogram
from dlcca.settings.recipe import FeatureRecipe


def feature_of(recipe: FeatureRecipe, samples: int, rate: float, where: str) -> Feature:
    """The feature, or an error that says why windows of this length cannot have it."""
    try:
        if recipe.kind == "raw":
            return RawSamples.all_of(samples, rate)
        if recipe.kind == "delay":
            return _delays(recipe, samples, rate)
        if recipe.kind == "bandpower":
            return _bands(recipe, samples, rate)
        if recipe.kind == "spectrogram":
            return _spectrogram(recipe, samples, rate)
        return Covariances(recipe.ridge)
    except ValueError as error:
        raise SettingsError(f"{where}: features = {recipe.kind!r}: {error}.") from error


def _delays(recipe: FeatureRecipe, samples: int, rate: float) -> RawSamples:
    lag = 1 if recipe.delay_s is None else round(recipe.delay_s * rate)
    if lag < 1:
        raise ValueError(f"delay_s = {recipe.delay_s:g} is less than half a sample of {rate:g} Hz")
    count = recipe.n_delays if recipe.n_delays is not None else (samples - 1) // lag + 1
    if (count - 1) * lag >= samples:
        raise ValueError(
            f"n_delays = {count} with delay_s = {lag / rate:g} reach back {(count - 1) * lag / rate:g} s, beyond the "
            f"window of {samples / rate:g} s; lengthen window_s, or ask for at most {(samples - 1) // lag + 1} delays"
        )
    return RawSamples.delayed(samples, rate, lag, count)


def _bands(recipe: FeatureRecipe, samples: int, rate: float) -> BandPower:
    bands = usual_bands(samples, rate) if recipe.bands is None else given_bands(recipe.bands, samples, rate)
    if not bands:
        raise ValueError(
            f"a window of {samples / rate:g} s at {rate:g} Hz can tell none of the bands; lengthen window_s, or name "
            "other bands"
        )
    return BandPower(rate, bands)


def _spectrogram(recipe: FeatureRecipe, samples: int, rate: float) -> Spectrogram:
    segment = max(2, samples // 4) if recipe.segment_s is None else round(recipe.segment_s * rate)
    if not 2 <= segment <= samples:
        raise ValueError(
            f"a segment of {segment} samples; from 2 to the {samples} of the window are possible (segment_s, window_s)"
        )
    most = rate / 2 if recipe.most_hz is None else float(recipe.most_hz)
    if most < rate / segment - 1e-9:
        raise ValueError(
            f"most_hz = {most:g} is below the lowest frequency of a segment, {rate / segment:g} Hz; lengthen segment_s"
        )
    return Spectrogram(rate, samples, segment, most)
