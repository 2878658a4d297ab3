"""Tests of the data sets. A package, so that no installed one of this name is taken for it."""
