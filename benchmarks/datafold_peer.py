"""Run by the Python of datafold's own environment: one of its methods on arrays in .npy files.

    python datafold_peer.py METHOD OUT.npy VIEW.npy...

Writes the coordinates to OUT.npy and prints a line of JSON: seconds of the processor and of the clock, peak memory.
Needs nothing of dlcca, and nothing newer than Python 3.9.
"""

import json
import resource
import sys
import time
import warnings

import numpy as np


def width(D):
    """ε of a kernel exp(-D / 2ε) of squared distances, such that 2ε is 0.3 of their median: found to suit it well."""
    return 0.3 * np.median(D) / 2


def jointly_smooth(views):
    from datafold.dynfold.jsf import JointlySmoothFunctions
    from datafold.pcfold import GaussianKernel

    edges = np.cumsum([0] + [X.shape[1] for X in views])
    splits = [(f"view{v}", GaussianKernel(epsilon=width), slice(edges[v], edges[v + 1])) for v in range(len(views))]
    model = JointlySmoothFunctions(splits, n_kernel_eigenvectors=100, n_jointly_smooth_functions=10)
    model.fit(np.hstack(views))
    return np.asarray(model.jointly_smooth_vectors_)[:, 1:]  # the first is constant


def roseland(views):
    from datafold.dynfold import Roseland
    from datafold.pcfold import GaussianKernel

    X = views[0]
    kernel = GaussianKernel(epsilon=float(X.var(axis=0).sum()))
    return Roseland(kernel, n_svdtriplet=6, landmarks=500, random_state=0).fit_transform(X)[:, 1:]


def diffusion_maps(views):
    from datafold.dynfold import DiffusionMaps
    from datafold.pcfold import GaussianKernel

    X = np.hstack(views)
    kernel = GaussianKernel(epsilon=float(X.var(axis=0).sum()) / 8)
    return DiffusionMaps(kernel, n_eigenpairs=6).fit_transform(X)[:, 1:]


METHODS = {"jointly smooth": jointly_smooth, "roseland": roseland, "diffusion maps": diffusion_maps}


def main(method, out, *paths):
    views = [np.load(path) for path in paths]
    METHODS[method]([X[:300] if method != "roseland" else X[:1000] for X in views])  # imports what it needs
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coordinates = np.asarray(METHODS[method](views))
    took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    np.save(out, coordinates)
    per_unit = 1 if sys.platform == "darwin" else 1024
    print(json.dumps({**took, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * per_unit}))


if __name__ == "__main__":
    main(*sys.argv[1:])
