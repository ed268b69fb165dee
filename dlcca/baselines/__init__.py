"""The methods that local CCA is compared with, all through one interface.

``f(views, n_components=2, **options)`` takes a list or a dict of arrays (n, d_v) and returns a `Baseline`.

    diffusion_maps          one view, or all of them side by side; does not look for what is common
    kernel_cca              canonical correlation of Gaussian kernels
    alternating_diffusion   a diffusion step along each view in turn
    linear_cca              global canonical correlation: what is linear in the channels

The first three hold n x n matrices and refuse more than 10 000 samples.
"""

from dlcca.baselines.cca import kernel_cca, linear_cca
from dlcca.baselines.diffusion import alternating_diffusion, diffusion_maps
from dlcca.baselines.interface import Baseline

__all__ = ["Baseline", "alternating_diffusion", "diffusion_maps", "kernel_cca", "linear_cca"]
