"""Writes arrays.npz: arrays of several types and layouts, for the reader of NumPy's files."""

import pathlib

import numpy

matrix = numpy.array([[1.5, -2.0, 0.25], [3.0, 1e10, -0.0]], dtype="float32")
numpy.savez_compressed(
    pathlib.Path(__file__).parent / "arrays.npz",
    matrix=matrix,
    fortran=numpy.asfortranarray(matrix.astype("float64")),
    big_endian=numpy.array([1, -2, 300], dtype=">i4"),
    truth=numpy.array([[True], [False]]),
    scalar=numpy.int64(7),
    empty=numpy.zeros((0, 4), dtype="uint8"),
)
