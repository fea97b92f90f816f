"""Long arrays in files: a `Column` is a NumPy array whose memory is a file, and so is all that is computed from it.

A log larger than memory is a Dataset of such columns, and the code that reads it is the same as for any other. What is
computed row by row, such as `column * 2`, is computed a part at a time into another file, with the same bits as in
memory. What is shorter than `LONG` is an ordinary array. The files have no names: they are gone when nobody holds them
any more, and also when the process is killed.

>>> import numpy as np
>>> column = in_file(3, np.float64, beside=None)
>>> column[:] = [1.0, 2.0, 3.0]
>>> float((column * 2).sum())
12.0
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeGuard

import numpy as np

from statewise.base.pages import map_file, release

LONG = 1 << 20  # entries from which on a result is kept in a file
PART = 1 << 16  # entries that are computed at a time: they fit into a cache
PARTS = 64  # after which the pages that were read and written need not stay in memory
PIECE = 1 << 16  # bytes that are written at a time where single rows will be read


class Column(np.ndarray):
    """An array in a file; slices that are short are ordinary arrays."""

    folder: str | None = None  # where further files go; None: where the system keeps its temporary ones

    def __array_finalize__(self, other: Any) -> None:
        self.folder = getattr(other, "folder", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        given, options = [_plain(one) for one in inputs], {name: _plain(one) for name, one in options.items()}
        wanted = None if out is None else tuple(_plain(one) for one in out)
        if wanted is None and _over_rows(ufunc, method, given, options):
            kept, rows = options.pop("keepdims", False), given[0]
            parts = [ufunc.reduce(rows[part], keepdims=True, **options) for part in parts_of(len(rows))]
            return ufunc.reduce(np.concatenate(parts), axis=0, keepdims=kept)
        length = _rows_of(ufunc, method, given, options)
        if length < LONG or (method != "__call__" and wanted is not None):
            result = getattr(ufunc, method)(*given, **options, **({} if wanted is None else {"out": wanted}))
            if any(np.size(one) >= LONG for one in given):
                release()
            return out[0] if out is not None and len(out) == 1 else result
        if method == "accumulate":
            made = in_file(given[0].shape, options.pop("dtype", None) or given[0].dtype, beside=self)
            ufunc.accumulate(*given, out=_plain(made), **options)
            return made

        def compute(part: slice, **into: Any) -> np.ndarray:
            rows = [given[0][part], *given[1:]] if ufunc.signature else [_at(one, part, length) for one in given]
            also = {name: _at(one, part, length) for name, one in options.items()}
            return getattr(ufunc, method)(*rows, **also, **into)

        if out is None or wanted is None:
            return by_parts(compute, length, self)
        for part in parts_of(length):
            compute(part, out=wanted[0][part])
        return out[0]

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        handler = _FUNCTIONS.get(function)
        made = NotImplemented if handler is None else handler(*inputs, **options)
        return super().__array_function__(function, types, inputs, options) if made is NotImplemented else made  # pyright: ignore

    def __getitem__(self, key: Any) -> Any:
        plain = _plain(self)
        index = _plain(key)
        if isinstance(index, np.ndarray) and index.ndim == 1:
            chosen = int(np.count_nonzero(index)) if index.dtype == bool else len(index)
            if chosen >= LONG:
                return _chosen(plain, index, chosen, self)
            if chosen > PART and index.dtype != bool:
                return _gathered(plain, index)
        found = plain[tuple(_plain(one) for one in index) if isinstance(index, tuple) else index]
        is_long = isinstance(found, np.ndarray) and found.ndim > 0 and len(found) >= LONG
        return _as_column(found, self) if is_long else found

    def astype(
        self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True, copy: Any = True
    ) -> Any:
        plain = _plain(self)
        if len(self) < LONG or (not copy and self.dtype == np.dtype(dtype)):
            return self if not copy and self.dtype == np.dtype(dtype) else plain.astype(dtype)
        return by_parts(lambda part: plain[part].astype(dtype, casting=casting), len(self), self)

    def copy(self, order: Any = "C") -> Any:
        return self.astype(self.dtype)


# Making them


def in_file(shape: int | Sequence[int], dtype: Any, beside: np.ndarray | str | Path | None) -> Column:
    """A column of zeros in the folder of another, or in the folder that is given."""
    shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    folder = getattr(beside, "folder", None) if isinstance(beside, np.ndarray) else beside
    with _new_file(shape, dtype, folder) as file:
        return _mapped(file.fileno(), shape, dtype, folder, writable=True)


def to_draw_from(blocks: Iterable[np.ndarray], shape: tuple[int, ...], dtype: Any, beside: Column) -> Column:
    """A column of all blocks, one below another, of which single rows will be read from all over it.

    The system keeps a file in pieces as large as they were written or read ahead, and takes in a whole one with each
    row: of pieces of megabytes, some thousand rows would be the whole file.
    """
    with _new_file(shape, dtype, beside.folder) as file:
        for block in blocks:
            contents = np.ascontiguousarray(block, dtype).data.cast("B")
            for first in range(0, len(contents), PIECE):
                file.write(contents[first : first + PIECE])
        file.flush()
        return _mapped(file.fileno(), shape, dtype, beside.folder, writable=True, at_random=True)


def from_file(path: Path, dtype: Any, columns: int | None, scratch: Path | None) -> Column:
    """The numbers in a file, read only; a matrix if there are several columns."""
    width = np.dtype(dtype).itemsize * (columns or 1)
    with path.open("rb") as file:
        rows = os.fstat(file.fileno()).st_size // width
        shape = (rows,) if columns is None else (rows, columns)
        return _mapped(file.fileno(), shape, dtype, None if scratch is None else str(scratch), writable=False)


def goes_to_file(beside: np.ndarray | None, length: int) -> TypeGuard[Column]:
    """Whether an array of so many rows is kept in a file: where the one beside it is, if it is long itself."""
    return isinstance(beside, Column) and length >= LONG


def like(beside: np.ndarray | None, shape: int | Sequence[int], dtype: Any = np.float64) -> np.ndarray:
    """`np.zeros`, in a file where the array beside it is in one."""
    length = shape if isinstance(shape, int | np.integer) else shape[0]
    return in_file(shape, dtype, beside) if goes_to_file(beside, length) else np.zeros(shape, dtype)


def repeated(values: np.ndarray, counts: np.ndarray, beside: np.ndarray | None) -> np.ndarray:
    """`np.repeat`, in a file where the array beside it is in one."""
    bounds = np.concatenate([[0], np.cumsum(counts)])
    if not goes_to_file(beside, int(bounds[-1])):
        return np.repeat(values, counts)
    made = in_file(int(bounds[-1]), values.dtype, beside)
    for part in parts_of(len(values)):
        _plain(made)[bounds[part.start] : bounds[part.stop]] = np.repeat(values[part], counts[part])
    return made


def by_parts(compute: Callable[[slice], np.ndarray], length: int, beside: np.ndarray | None) -> np.ndarray:
    """`compute` of all rows, a part at a time, in a file where the array beside it is in one."""
    if not goes_to_file(beside, length):
        return compute(slice(0, length))
    made: np.ndarray | None = None
    for part in parts_of(length):
        result = compute(part)
        if made is None:
            made = in_file((length, *result.shape[1:]), result.dtype, beside)
        _plain(made)[part] = result
    assert made is not None
    return made


def parts_of(length: int, size: int | None = None) -> Iterator[slice]:
    """Slices of so many rows; memory that was needed for those before is given back now and then."""
    size = PART if size is None else size
    for number, first in enumerate(range(0, length, size)):
        yield slice(first, min(first + size, length))
        if number % PARTS == PARTS - 1:
            release()
    if length >= LONG:
        release()


# What NumPy's functions do where they would otherwise take memory for all rows at once


def _where(condition: Any, *values: Any) -> Any:
    length = _length([condition, *values])
    if len(values) != 2 or length < LONG:
        return NotImplemented
    given = [_plain(one) for one in (condition, *values)]
    beside = next(one for one in (condition, *values) if isinstance(one, Column))
    return by_parts(lambda part: np.where(*(_at(one, part, length) for one in given)), length, beside)


def _take_along(values: Any, index: Any, axis: Any = -1) -> Any:
    if axis not in (1, -1) or np.ndim(values) != 2 or len(values) < LONG:
        return NotImplemented
    beside = next(one for one in (values, index) if isinstance(one, Column))
    plain, at = _plain(values), _plain(index)
    return by_parts(lambda part: np.take_along_axis(plain[part], at[part], axis=1), len(values), beside)


def _append(values: Any, more: Any, axis: Any = None) -> Any:
    values, more = np.atleast_1d(values), np.atleast_1d(more)
    if axis != 0 and (axis is not None or max(values.ndim, more.ndim) > 1):
        return NotImplemented
    return _concatenate([values, more])


def _concatenate(arrays: Any, axis: Any = 0, **options: Any) -> Any:
    length = sum(len(one) for one in arrays)
    if axis != 0 or options or length < LONG:
        return NotImplemented
    beside = next(one for one in arrays if isinstance(one, Column))
    shape, made = np.shape(arrays[0])[1:], None
    made = in_file((length, *shape), np.result_type(*(one.dtype for one in arrays)), beside)
    first = 0
    for one in arrays:
        for part in parts_of(len(one)):
            _plain(made)[first + part.start : first + part.stop] = _plain(one)[part]
        first += len(one)
    return made


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.take_along_axis: _take_along,
    np.append: _append,
    np.concatenate: _concatenate,
}


# Inside


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Column) else value


def _as_column(values: np.ndarray, beside: Column) -> Column:
    column = values.view(Column)
    column.folder = beside.folder
    return column


def _size(shape: tuple[int, ...], dtype: Any) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize


@contextmanager
def _new_file(shape: tuple[int, ...], dtype: Any, folder: Any) -> Iterator[IO[bytes]]:
    """A file without a name that has room for so many numbers."""
    size = _size(shape, dtype)
    with tempfile.TemporaryFile(dir=folder) as file:
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)  # a disk that is full says so now, and not by a crash later
        else:
            file.truncate(size)
        yield file


def _mapped(
    handle: int, shape: tuple[int, ...], dtype: Any, folder: Any, writable: bool, at_random: bool = False
) -> Column:
    size = _size(shape, dtype)
    if size == 0:  # which cannot be mapped
        column = np.zeros(shape, dtype).view(Column)
    else:
        column = np.ndarray(shape, dtype, buffer=map_file(handle, size, writable, at_random)).view(Column)
    column.folder = None if folder is None else str(folder)
    return column


def _length(given: Sequence[Any]) -> int:
    """How many rows a result has."""
    shape = np.broadcast_shapes(*(np.shape(one) for one in given))
    return shape[0] if shape else 0


def _rows_of(ufunc: np.ufunc, method: str, given: Sequence[Any], options: dict[str, Any]) -> int:
    """How many rows the result has, where each comes of the same row of what is given; 0 where that is not so."""
    if method == "accumulate":
        return len(given[0]) if np.ndim(given[0]) == 1 else 0
    if method == "reduce":
        across = np.ndim(given[0]) == 2 and options.get("axis") in (1, -1) and not options.get("keepdims")
        return len(given[0]) if across else 0
    if method != "__call__" or ufunc.nout > 1:
        return 0
    if ufunc.signature is None:
        return _length(given)
    return len(given[0]) if ufunc is np.matmul and np.ndim(given[0]) == 2 else 0


def _over_rows(ufunc: np.ufunc, method: str, given: Sequence[Any], options: dict[str, Any]) -> bool:
    """Whether it is the sum, the least or the greatest of a long matrix's columns, which parts add to."""
    usual = options.get("where", True) is True and not set(options) - {"axis", "dtype", "keepdims", "where"}
    by_columns = method == "reduce" and np.ndim(given[0]) == 2 and options.get("axis") == 0
    return usual and by_columns and len(given[0]) >= LONG and ufunc in (np.add, np.minimum, np.maximum)


def _at(value: Any, part: slice, length: int) -> Any:
    """The rows of a part, where the value has one for each."""
    return value[part] if isinstance(value, np.ndarray) and value.ndim and len(value) == length else value


def _chosen(plain: np.ndarray, index: np.ndarray, chosen: int, beside: Column) -> Column:
    made, first = in_file((chosen, *plain.shape[1:]), plain.dtype, beside), 0
    for part in parts_of(len(index)):
        rows = plain[part][index[part]] if index.dtype == bool else plain[index[part]]
        _plain(made)[first : first + len(rows)] = rows
        first += len(rows)
    return made


def _gathered(plain: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Rows in memory; in order, those of a part are of a stretch of the file, which need not stay."""
    made = np.empty((len(index), *plain.shape[1:]), plain.dtype)
    for part in parts_of(len(index)):
        made[part] = plain[index[part]]
        release()
    return made
