"""Ragged tensors for the tests of the data SDK."""

from __future__ import annotations

from typing import Any

import numpy as np
import raggeddnn as rd
from raggeddnn.tensor import BSHD_SEQ_AXIS, RaggedTensor, ShallowRaggedTensor, Tensor

T = rd.DataType
TYPES = [T.FLOAT, T.DOUBLE, T.HALF, T.BFLOAT16, T.INT32, T.INT64, T.INT8, T.UINT8, T.BOOLEAN]
REALS = TYPES[:4]

# Three batches of 3, 0 and 1 rows of two heads of three numbers.
DIMS = [3, 4, 2, 3]
STRIDES = [24, 6, 3, 1]
OFFSETS = [0, 18, 18, 24]
INVALID = rd.InvalidValueError


def aux_of(offsets, data_type=T.INT32):
    aux = Tensor([len(offsets), 1, 1, 1], None, data_type)
    aux.fill_from_host(list(offsets))
    return aux


def _named(options):
    names = {"count": "physical_element_count", "multiplier": "ragged_offset_multiplier"}
    return {names[name]: value for name, value in options.items()}


def owning(dims=DIMS, strides=STRIDES, axis=BSHD_SEQ_AXIS, aux=None, **options: Any):
    aux = aux_of(OFFSETS) if aux is None else aux
    return RaggedTensor(dims, strides, axis, aux, **_named(options))


def shallow(dims=DIMS, strides=STRIDES, axis=BSHD_SEQ_AXIS, aux=None, **options: Any):
    aux = aux_of(OFFSETS) if aux is None else aux
    memory = np.zeros(64, np.float32)
    return ShallowRaggedTensor(memory, dims, strides, axis, aux, **_named(options))
