"""How blocks are computed: on workers or here, in which batches, at which cost."""
