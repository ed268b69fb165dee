"""What a user can set: the options of a fit, what "auto" becomes, run files and recipes of views."""
