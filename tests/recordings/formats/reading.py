"""Helpers of the tests of readers."""

import itertools
import pickle
import signal as signals
from contextlib import contextmanager

import numpy as np


def all_of(signal):
    """Every sample of every channel, read at once."""
    return signal.read(0, signal.n, range(len(signal.channels)))


def in_pieces(signal, size=7):
    """The same, read by pieces that do not divide it."""
    edges = [*range(0, signal.n, size), signal.n]
    columns = range(len(signal.channels))
    return np.concatenate([signal.read(a, b, columns) for a, b in itertools.pairwise(edges)])


def sent(signal):
    """The signal as another process would get it."""
    return pickle.loads(pickle.dumps(signal))


@contextmanager
def within(seconds):
    """Fail if the block does not end: a reader that loops would hold up all tests after it."""

    class Endless(BaseException):  # which no reader takes for a damaged file
        pass

    def stop(number, frame):
        raise Endless

    before = signals.signal(signals.SIGALRM, stop)
    signals.alarm(seconds)
    try:
        yield
    except Endless:
        raise AssertionError(f"did not end within {seconds} s") from None
    finally:
        signals.alarm(0)
        signals.signal(signals.SIGALRM, before)
