"""Recordings in the formats of their fields, one file each; all give a `recording.Recording`."""

from dlcca.recordings.formats.recording import Annotation as Annotation
from dlcca.recordings.formats.recording import Channel as Channel
from dlcca.recordings.formats.recording import Recording as Recording
from dlcca.recordings.formats.recording import Signal as Signal
from dlcca.recordings.formats.registry import open_recording as open_recording

__all__ = ["Annotation", "Channel", "Recording", "Signal", "open_recording"]
