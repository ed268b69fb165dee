"""One HTML page about a finished result: it needs no network, prints, and can be read without scripts.

How it is drawn. Every figure is an SVG by matplotlib, always there: on paper, without scripts, for those who listen
(each has a name and a caption). A small script of our own, in ``script/``, adds what only a script can: a map that is
turned, coloured and searched, linked to a time-line, and values at the pointer. It is plain JavaScript, 40 kB.

Why no plotting library for the browser. Measured with 2000 points: a page with plotly inside is 4.9 MB, draws space
through WebGL, which not every machine has, and shows nothing without scripts; with bokeh it is 1.3 MB, and there is no
space at all. The whole page here is to stay below 6 MB with all figures, and its map below what a telephone can hold.
Controls are the browser's own (sliders, lists, buttons), so that keys and screen readers know them.

How it stays quick. A store is read once, some rows at a time (`reading`), and what is drawn is gathered as they go by
(`gathering`): points evenly over the recording, extremes of stretches, spectra, counts of gaps. So a report of ten
million rows needs no more memory than one of a million, and says what of all rows it draws.

::

    page         the page: reads nothing, calls all others
    overview     all that is told of a result, from a run in memory or a store
    sentences    what was found, in words;  words, moments: numbers and times as people read them
    panels       the figures, with trust, comparison, axes (artists) and figures (SVG)
    explorer     the map and the time-line: numbers for the script
    provenance   settings, cost against plan, versions
"""
