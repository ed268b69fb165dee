"""How well coordinates hold a variable: the measures that the tests and the suite of problems share."""

import numpy as np
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor


def recovery(embedding, variable):
    """Held-out R² of a variable (n, p) from coordinates (n, q) by 10 nearest neighbours; 1 is perfect, 0 chance."""
    folds = KFold(5, shuffle=True, random_state=0)
    guess = cross_val_predict(KNeighborsRegressor(10), embedding, variable, cv=folds)
    return 1 - ((variable - guess) ** 2).sum() / ((variable - variable.mean(axis=0)) ** 2).sum()


def likeness(a, b):
    """|correlation| of two series."""
    return abs(np.corrcoef(np.ravel(a), np.ravel(b))[0, 1])


def highest_peaks(series, step_s, count):
    """Frequencies (Hz) of the highest local maxima of the periodogram, rising."""
    power = np.abs(np.fft.rfft(series - series.mean())) ** 2
    frequency = np.fft.rfftfreq(len(series), step_s)
    inner = np.arange(1, len(power) - 1)
    peaks = inner[(power[inner] >= power[inner - 1]) & (power[inner] > power[inner + 1])]
    return np.sort(frequency[peaks[np.argsort(power[peaks])[-count:]]])


def power_shares(series, speeds, common):
    """Shares of the power at the harmonics of one speed, and at those of the others that are not also its own.

    Speeds in degrees per sample; a harmonic takes the bins of the periodogram within one bin width.
    """
    power = np.abs(np.fft.rfft(series - series.mean())) ** 2
    width = 360 / len(series)
    at = np.arange(len(power)) * width

    def near(speed):
        harmonics = speed * np.arange(1, int(180 / speed) + 1)
        return (np.abs(at[:, None] - harmonics) <= width).any(axis=1)

    own = near(speeds[common])
    foreign = np.any([near(speed) for i, speed in enumerate(speeds) if i != common], axis=0) & ~own
    return power[own].sum() / power.sum(), power[foreign].sum() / power.sum()
