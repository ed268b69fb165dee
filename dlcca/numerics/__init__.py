"""Arrays in, arrays out: every formula of the method, and nothing that knows of disks or clusters.

The modules follow the order of the computation, and the same words run through all layers::

    landmarks, windows, neighborhoods   which samples are looked at, and with which neighbours
    whitening, cca, maxvar, tcca        the local metric A = F Fᵀ of a view at each landmark
    distances                           D: squared distances under the local metrics
    bandwidth, affinity                 W = exp(-D/σ), dense or sparse
    spectra, alternating                the diffusion eigenproblem, for one kernel and for one per view
    krylov                              block Lanczos, where no matrix of it is to be formed
    extension, signs                    coordinates of a row from its kernel row; a fixed sign
"""
