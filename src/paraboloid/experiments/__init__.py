"""One file, one claim: a table or a figure of a paper, run at three sizes."""
