"""The HTML report of a finished result: one file that needs no network, prints, and can be read without scripts.

Figures are SVG by matplotlib, each with a name and a caption, so that they are there on paper, without scripts and for
screen readers. A script (``script/``, plain JavaScript, 40 kB) adds what needs one: a map to turn, colour and search,
linked to a time-line, and values at the pointer. Controls are the browser's own (sliders, lists, buttons), which
keyboards and screen readers support.

No plotting library for the browser is used. Measured with 2000 points: a page with plotly is 4.9 MB, draws 3-D through
WebGL, which not every machine has, and shows nothing without scripts; with bokeh it is 1.3 MB, without 3-D. A page here
has to stay below 6 MB with all figures.

Size. A store is read once, block by block (`rows`): evenly spaced points, extremes of stretches, spectra and counts of
gaps. A report of ten million rows needs no more memory than one of a million, and says which rows are drawn.
"""
