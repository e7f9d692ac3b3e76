"""Decimals as Postgres' numeric: digits to the base 10,000, from 128-bit integers, with NumPy.

Every value of a column gets as many digits as its type can have. Postgres drops the zeros at both
ends.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_BASE = 10_000
_NEGATIVE = 0x4000
_LIMB_BITS = 32
_LIMB = np.uint64((1 << _LIMB_BITS) - 1)


def numeric_bytes(values: pa.Array) -> npt.NDArray[np.uint8]:
    """Return count, weight, sign, scale and digits of every value; a null is zero."""
    precision, scale = values.type.precision, values.type.scale
    before, behind = -(-(precision - scale) // 4), -(-scale // 4)
    digits = before + behind
    limbs, negative = _magnitudes(values)
    # The point lies between two digits: the last of them is filled with zeros.
    _multiply(limbs, 10 ** (behind * 4 - scale))
    block = np.zeros((len(values), 4 + digits), ">i2")
    block[:, 0] = digits
    block[:, 1] = before - 1
    block[:, 2] = np.where(negative, _NEGATIVE, 0)
    block[:, 3] = scale
    for position in range(digits - 1, -1, -1):
        block[:, 4 + position] = _divide(limbs)
    return block.view(np.uint8).reshape(len(values), -1)


def _magnitudes(
    values: pa.Array,
) -> tuple[list[npt.NDArray[np.uint64]], npt.NDArray[np.bool_]]:
    """Return absolute values in limbs of 32 bits, the least first, and which are negative.

    Small decimals need two limbs and the one that a multiplication may fill, large ones five.
    """
    rows = len(values)
    words = np.frombuffer(values.buffers()[1], "<u8")[: 2 * (values.offset + rows)]
    words = words.reshape(-1, 2)[values.offset :]
    low, high = words[:, 0].copy(), words[:, 1].copy()
    if values.null_count:
        gone = values.is_null().to_numpy(zero_copy_only=False)
        low[gone] = high[gone] = 0
    negative = high >> np.uint64(63) == 1
    # The two's complement: turn every bit, add one, and carry it if the low word is full.
    carry = (low == 0).astype(np.uint64)
    high = np.where(negative, ~high + carry, high)
    low = np.where(negative, ~low + np.uint64(1), low)
    shift = np.uint64(_LIMB_BITS)
    limbs = [low & _LIMB, low >> shift]
    if values.type.precision > 18:
        limbs += [high & _LIMB, high >> shift]
    limbs.append(np.zeros(rows, np.uint64))
    return limbs, negative


def _multiply(limbs: list[npt.NDArray[np.uint64]], factor: int) -> None:
    if factor == 1:
        return
    carry = np.zeros_like(limbs[0])
    for position, limb in enumerate(limbs):
        product = limb * np.uint64(factor) + carry
        limbs[position] = product & _LIMB
        carry = product >> np.uint64(_LIMB_BITS)


def _divide(limbs: list[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """Divide by the base in place, and return the remainders."""
    base = np.uint64(_BASE)
    remainder = np.zeros_like(limbs[0])
    for position in range(len(limbs) - 1, -1, -1):
        current = (remainder << np.uint64(_LIMB_BITS)) | limbs[position]
        limbs[position] = current // base
        remainder = current - limbs[position] * base
    return remainder
