"""Handles one request: find the operation, authenticate, inject faults, execute, log, answer.

All services are on one address, so the path, or action and version, give the operation; the signature has to be for its service.
Every call is logged, whatever its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

from muster.fleet.aws import identifiers
from muster.fleet.aws.behaviour import AnswerLost
from muster.fleet.aws.callers import PROOF, Caller, Callers, SignedRequest
from muster.fleet.aws.calls import CallLog, CallRecord
from muster.fleet.aws.errors import AwsRefusal
from muster.fleet.aws.services import eks, policies, providers, roles, sts
from muster.fleet.aws.services.operation import Call, Operation, Services
from muster.fleet.aws.services.parameters import Parameters
from muster.fleet.aws.statefile import StateFile
from muster.fleet.aws.wire import query, rest
from muster.http import Response
from muster.machinery.logs import get_logger

log = get_logger(__name__)

OPERATIONS: Final[Mapping[str, Mapping[str, Operation]]] = {
    "sts": sts.OPERATIONS,
    "iam": {**roles.OPERATIONS, **policies.OPERATIONS, **providers.OPERATIONS},
    "eks": eks.OPERATIONS,
}
MOST_PARAMETERS: Final = 1000
ANY_REGION: Final = "us-east-1"
"""The region of unsigned calls."""


@dataclass
class _RequestLog:
    """What is known of a request so far, for the log and for the format of its answer."""

    service: str = "sts"
    operation: str = "unknown"
    account: str = ""
    caller: str = ""
    region: str = ""
    media: str = query.XML
    request_id: str = ""
    needed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.service}:{self.operation}"


class Dispatcher:
    def __init__(self, services: Services, callers: Callers, state: StateFile, calls: CallLog) -> None:
        self._services = services
        self._callers = callers
        self._state = state
        self._calls = calls

    async def serve(self, request: SignedRequest) -> Response:
        """Raises AnswerLost if no answer is to be sent."""
        record = _RequestLog(request_id=identifiers.uuid(self._services.world.random))
        if query.JSON in request.header("accept"):
            record.media = query.JSON
        result: Mapping[str, Any] | None = None
        try:
            result = await self._perform(request, record)
        except AwsRefusal as refusal:
            self._log(record, _code(record, refusal))
            return _refused(record, refusal)
        except AnswerLost:
            self._log(record, "lost")
            raise
        except BaseException:
            self._log(record, "failed")
            raise
        self._log(record, "OK")
        return _answered(record, result)

    async def _perform(self, request: SignedRequest, record: _RequestLog) -> Mapping[str, Any] | None:
        values = _addressed(request, record)
        operation = OPERATIONS[record.service].get(record.operation)
        if operation is None:
            raise AwsRefusal("InvalidAction", f"Could not find operation {record.operation[:100]} for version of {record.service}")
        caller, region = self._caller(request, record, operation)
        record.region = region
        behaviour = self._services.behaviour
        await behaviour.before(record.name, record.account)
        parameters = Parameters(values)
        call = Call(record.service, record.operation, parameters, caller, region, record.needed)
        result = await operation.perform(self._services, call)
        if operation.changes:
            await self._save()
        await behaviour.after(record.name)
        return result

    async def _save(self) -> None:
        try:
            await self._state.save()
        except OSError as error:
            log.error("the state of the local AWS could not be written", error=str(error))
            raise AwsRefusal("InternalFailure", "the state could not be written; see the server's log", 500) from None

    def _caller(self, request: SignedRequest, record: _RequestLog, operation: Operation) -> tuple[Caller | None, str]:
        if not operation.signed and not request.is_signed:
            return None, ANY_REGION
        caller, region = self._callers.authenticate(request, record.service)
        record.account, record.caller = caller.account, caller.arn
        return caller, region

    def _log(self, record: _RequestLog, result: str) -> None:
        now = self._services.world.clock.now()
        actions = tuple(action for action, _ in record.needed)
        resource = record.needed[0][1] if record.needed else ""
        self._calls.record(CallRecord(now, record.name, record.account, record.caller, record.region, result, resource, actions))


def _addressed(request: SignedRequest, record: _RequestLog) -> dict[str, Any]:
    """Finds the operation, and returns its parameters. Raises AwsRefusal."""
    if request.path.strip("/"):
        record.service = "eks"
        found = rest.route(request.method, request.path)
        if found is None:
            raise AwsRefusal("InvalidAction", f"there is no such path, or not for {request.method[:10]}", 404)
        record.operation, path = found
        given = query.unique([pair for pair in request.query if pair[0] not in PROOF])
        return rest.parameters(path, given, request.body)
    pairs = [pair for pair in request.query if pair[0] not in PROOF]
    if request.method == "POST":
        try:
            pairs += parse_qsl(
                request.body.decode(), keep_blank_values=True, strict_parsing=bool(request.body), max_num_fields=MOST_PARAMETERS
            )
        except ValueError:
            raise AwsRefusal("MalformedQueryString", "The query string contains a syntax error") from None
    flat = query.unique([*pairs, *((name, "") for name, _ in request.query if name in PROOF)])
    for name in PROOF:
        flat.pop(name, None)
    service = query.SERVICES.get(flat.pop("Version", ""))
    record.service = service or record.service
    record.operation = flat.pop("Action", "")[:100] or record.operation
    if service is None:
        raise AwsRefusal("InvalidAction", "The action or the version of the API is missing or not known")
    return query.nested(flat)


def _code(record: _RequestLog, refusal: AwsRefusal) -> str:
    return rest.CODES.get(refusal.code, refusal.code) if record.service == "eks" else refusal.code


def _answered(record: _RequestLog, result: Mapping[str, Any] | None) -> Response:
    headers = [("x-amzn-RequestId", record.request_id)]
    if record.service == "eks":
        return Response(200, rest.answer(result), headers, rest.JSON)
    return Response(
        200, query.answer(record.service, record.operation, result, record.request_id, record.media), headers, record.media
    )


def _refused(record: _RequestLog, refusal: AwsRefusal) -> Response:
    headers = [("x-amzn-RequestId", record.request_id)]
    if record.service == "eks":
        kind, body = rest.refusal(refusal)
        return Response(refusal.status, body, [*headers, ("x-amzn-ErrorType", kind)], rest.JSON)
    return Response(refusal.status, query.refusal(record.service, refusal, record.request_id, record.media), headers, record.media)
