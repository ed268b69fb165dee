"""Recordings in the formats of their fields, one file each; all give a `recording.Recording`."""

from .opening import open_recording as open_recording
from .recording import Annotation as Annotation
from .recording import Channel as Channel
from .recording import Recording as Recording
from .recording import Signal as Signal

__all__ = ["Annotation", "Channel", "Recording", "Signal", "open_recording"]
