"""Exceptions. All are weft.Error; most are also the matching exception of Python."""


class Error(RuntimeError):
    """The base of all errors of weft."""

    code = "device"


class InvalidArgumentError(Error, ValueError):
    """An argument is invalid."""

    code = "invalid_argument"


class InvalidFileError(Error, ValueError):
    """A file's content is damaged or contradicts itself."""

    code = "invalid_file"


class UnsupportedError(Error, NotImplementedError):
    """Valid, but weft cannot do it."""

    code = "unsupported"


class NotFoundError(Error, FileNotFoundError):
    """A file, device or name does not exist."""

    code = "not_found"


class IoError(Error, OSError):
    """Reading or writing failed."""

    code = "io"


class OutOfMemoryError(Error, MemoryError):
    """Memory of the host or of a device is exhausted."""

    code = "out_of_memory"


class DeviceError(Error):
    """A device failed, or a request failed repeatedly."""

    code = "device"


class CancelledError(Error):
    """The caller cancelled it."""

    code = "cancelled"


class OverloadedError(Error):
    """The queue is full: try again after `retry_after` seconds."""

    code = "overloaded"
    retry_after = 0.0


class UnavailableError(Error):
    """The engine shuts down, or waits for other devices."""

    code = "unavailable"


class CacheFullError(Error):
    """The cache has no room. Nothing changed: shorten sequences, then try again."""

    code = "cache_full"


_BY_CODE: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (
        InvalidArgumentError,
        InvalidFileError,
        UnsupportedError,
        NotFoundError,
        IoError,
        OutOfMemoryError,
        DeviceError,
        CancelledError,
        OverloadedError,
        UnavailableError,
        CacheFullError,
    )
}


def from_code(code: str, message: str, retry_after: float = 0.0) -> Error:
    """The exception of a code, as the C++ side of the package makes it."""
    error = _BY_CODE[code](message)
    if isinstance(error, OverloadedError):
        error.retry_after = retry_after
    return error
