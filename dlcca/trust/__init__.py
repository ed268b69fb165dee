"""Whether a result can be trusted: what views share, against chance, and how it is tested. Arrays in, numbers out."""
