"""The studio's pages over HTTP."""

# FastAPI reads the annotations of its endpoints: they are not put off as elsewhere
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from statewise.data.schema import Schema
from statewise.studio.choices import Choices
from statewise.studio.folder import NotThere, StudioError, StudioFolder
from statewise.studio.guard import Guard
from statewise.studio.pages import page
from statewise.studio.reading import reading_of
from statewise.studio.runs import Runs
from statewise.studio.uploads import receive
from statewise.studio.views import home_view, log_view, rounds_view, run_view, start_options, try_view

FORM = 4 * 10**6  # bytes
FIELDS = 50_000
DOWNLOADS = ("policy.safetensors", "goal.safetensors", "report.html", "decision.json")
# a report draws with styles of its own, and needs nothing else
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM:
            raise StudioError("the form is too long")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS))
    except ValueError as error:
        raise StudioError("the form could not be read") from error


Form = Annotated[dict[str, str], Depends(_form)]


def application(
    folder: StudioFolder, options_of: Callable[[Schema], str], settings: Mapping[str, Any] | None = None
) -> FastAPI:
    """The studio of a folder; `options_of` and `settings` as in `Runs`."""
    runs = Runs(folder, options_of, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        runs.resume_interrupted()
        yield
        runs.close()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.middleware("http")(Guard(folder.key()))

    @app.exception_handler(HTTPException)
    async def no_page(request: Request, error: HTTPException) -> Response:
        sentence = "There is no such page." if error.status_code == 404 else f"{error.detail}."
        return _page("error.html", error.status_code, sentence=sentence)

    @app.exception_handler(ValueError)
    @app.exception_handler(OSError)
    async def mistake(request: Request, error: Exception) -> Response:
        return _page("error.html", 404 if isinstance(error, NotThere) else 400, sentence=_sentence(error))

    @app.exception_handler(RequestValidationError)
    async def wrong_address(request: Request, error: RequestValidationError) -> Response:
        return _page("error.html", 400, sentence="This address is not one of the studio's: follow a link instead.")

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        sentence = f"This is a bug in statewise, not a mistake on your part: {type(error).__name__}: {error}."
        return _page("error.html", 500, sentence=sentence)

    @app.get("/")
    def home() -> Response:
        return _page("home.html", **home_view(folder, runs))

    @app.get("/studio.{kind}")
    def static(kind: str) -> Response:
        types = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
        if kind not in types:
            raise HTTPException(404)
        content = (files("statewise.studio") / "pages" / f"studio.{kind}").read_bytes()
        return Response(content, media_type=types[kind])

    # Logs

    @app.put("/logs")
    async def give(request: Request, name: str = "", after: str | None = None) -> Response:
        try:
            if after is not None:
                folder.run(after)
            id = await receive(folder, name, request.stream(), after)
        except (StudioError, OSError) as error:
            return JSONResponse({"error": _sentence(error)}, 400)
        return JSONResponse({"page": f"/logs/{id}"})

    @app.get("/logs/{id}")
    def log(id: str) -> Response:
        return _page("log.html", **log_view(folder, runs, id))

    @app.post("/logs/{id}")
    def choose(id: str, form: Form) -> Response:
        path = folder.choices_file(id)
        names = [column.name for column in reading_of(folder, id).columns]
        choices = Choices.at(path).mended(form["mend"]) if "mend" in form else Choices.from_form(form, names)
        choices.save(path)
        return RedirectResponse(f"/logs/{id}", 303)

    @app.post("/logs/{id}/start")
    def start(id: str, form: Form) -> Response:
        try:
            run = runs.start(**start_options(folder, runs, id, form))
        except StudioError as error:
            return _page("log.html", 400, **log_view(folder, runs, id), error=_sentence(error))
        return RedirectResponse(f"/runs/{run}", 303)

    # Runs

    @app.get("/runs/{id}")
    def run(id: str) -> Response:
        return _page("run.html", **run_view(folder, runs, id))

    @app.get("/runs/{id}/progress")
    def progress(id: str) -> Response:
        return _page("progress.html", **run_view(folder, runs, id))

    @app.post("/runs/{id}/stop")
    def stop(id: str) -> Response:
        runs.stop(id)
        return RedirectResponse(f"/runs/{id}", 303)

    @app.post("/runs/{id}/resume")
    def resume(id: str) -> Response:
        try:
            runs.resume(id)
        except StudioError as error:
            return _page("run.html", 400, **run_view(folder, runs, id), error=_sentence(error))
        return RedirectResponse(f"/runs/{id}", 303)

    @app.get("/runs/{id}/report")
    def report(id: str) -> Response:
        path = runs.file(id, "report.html")
        return FileResponse(path, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})

    @app.get("/runs/{id}/files/{name}")
    def download(id: str, name: str) -> Response:
        if name not in DOWNLOADS:
            raise NotThere(f"this run has no {name}")
        return FileResponse(runs.file(id, name), filename=f"{id}-{name}", media_type="application/octet-stream")

    @app.get("/runs/{id}/try")
    def trial(id: str, row: int = 1) -> Response:
        return _page("try.html", **try_view(folder, runs, id, row, {}))

    @app.post("/runs/{id}/try")
    def ask(id: str, form: Form) -> Response:
        row = form.get("row", "1")
        return _page("try.html", **try_view(folder, runs, id, int(row) if row.isdecimal() else 1, form))

    @app.get("/runs/{id}/rounds")
    def rounds(id: str) -> Response:
        return _page("rounds.html", **rounds_view(folder, id))

    return app


def _page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(page(name, **values), status)


def _sentence(error: Exception) -> str:
    """What went wrong, with a capital and a full stop."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        text = str(error) or type(error).__name__
    return text[:1].upper() + text[1:].rstrip(".") + "."
