"""Problems whose answer is known, every method on each of them, and one table of it all (``make suite``)."""
