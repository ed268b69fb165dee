"""From files of recordings to views: aligned, windowed, scaled."""
