"""The shape of errors."""

from multifold.errors import needs_extra

with needs_extra("serve"):
    from pydantic import BaseModel


class ErrorSummary(BaseModel):
    """Why one of several things could not be done: a code for programs, a sentence for people."""

    code: str
    message: str


class ErrorDetail(BaseModel):
    """What went wrong: a code for programs, a sentence for people."""

    code: str
    message: str
    request_id: str


class ErrorAnswer(BaseModel):
    """The shape of every error."""

    error: ErrorDetail
