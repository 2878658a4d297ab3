"""Numbers from tensors: how right, how sure, how well calibrated, how far mixed; with a bootstrap for each.

Pure functions that have never heard of networks. They compute in float64, on the device of what they are given. The
last axes are a data set, probabilities (n, C) and numbers (n,); axes in front of them are independent data sets, each
of which gets its own number.
"""
