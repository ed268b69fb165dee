"""Arrays in, arrays out: every formula of the method, and nothing that knows of disks or clusters.

The modules follow the order of the computation, and the same words run through all layers::

    landmarks, windows, neighbors, topk   which samples are landmarks, and which are their neighbours
    principal                             principal directions of neighborhoods
    metrics                               the local metric A = F Fᵀ of a view at each landmark (`METRICS`)
    distances                             D: squared distances under the local metrics
    kernels                               the bandwidth σ, and W = exp(-D/σ), dense or sparse
    fusion                                how views come together, and the diffusion eigenproblem (`FUSIONS`)
    eigensolvers                          largest eigenpairs, by matrices or by block Lanczos
    coordinates, potential                coordinates of a row from its kernel rows (`COORDINATES`)
    streaming, compiled                   sums and quantiles over blocks; loops compiled by numba
"""
