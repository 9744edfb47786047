"""The tables of `make_cases.py`: which operations have golden cases, and on which samples.

- `case.py`: how a case is built, run and written down, in the format of the replayer.
- `samples.py`: the vocabulary of the tables (`T`, `ok`, `refused`, `Op`) and the kinds of samples that many operations share.
- Every other module is a table: a list `OPS` with one row per operation.
"""
