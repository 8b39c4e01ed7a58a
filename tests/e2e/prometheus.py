"""Debian's prometheus with scrape jobs, asked through its own HTTP API."""

from collections.abc import Mapping, Sequence

import aiohttp
import yaml

from pyrbacproxy.demo.pki import Authority
from tests.e2e.programs import LISTENING, Program, Programs, debian


class Prometheus:
    """A running one."""

    def __init__(self, program: Program, address: str) -> None:
        self._program = program
        self._address = address

    async def until(self, query: str) -> float:
        """Wait until an instant query has a result (comparisons filter); returns its value."""

        async def look() -> float | None:
            answer = await self._get("query", {"query": query})
            result = _at(answer, "data", "result")
            assert isinstance(result, list)
            return float(_sample(result[0])) if result else None

        try:
            return await self._program.until(look, f"result for {query}")
        except AssertionError as error:
            error.add_note(f"targets: {await self._get('targets', {})}")
            raise

    async def until_error(self, text: str) -> None:
        """Wait until the last scrape failed with this text."""

        async def look() -> bool | None:
            targets = _at(await self._get("targets", {}), "data", "activeTargets")
            assert isinstance(targets, list)
            return any(text in str(target) for target in targets) or None

        await self._program.until(look, f"scrape error {text!r}")

    async def _get(self, path: str, parameters: Mapping[str, str]) -> object:
        url = f"http://{self._address}/api/v1/{path}"
        async with aiohttp.ClientSession() as session, session.get(url, params=parameters) as got:
            answer: object = await got.json()
            return answer


def by_token(authority: Authority, programs: Programs, token: str) -> dict[str, object]:
    """What a scrape job says to send this token, and to know the proxy by its CA."""
    file = programs.folder / "token"
    file.write_text(token)
    return {
        "tls_config": {"ca_file": str(authority.certificate_file)},
        "authorization": {"credentials_file": str(file)},
    }


async def start_prometheus(
    programs: Programs, target: str, credentials: Mapping[str, object]
) -> Prometheus:
    """Scrape https://`target`/metrics every two seconds; `credentials` are fields of the job."""
    job = {
        "job_name": "node",
        "scheme": "https",
        "scrape_interval": "2s",
        "scrape_timeout": "2s",
        "static_configs": [{"targets": [target]}],
        **credentials,
    }
    return await start_jobs(programs, [job])


async def start_jobs(programs: Programs, jobs: Sequence[Mapping[str, object]]) -> Prometheus:
    """Scrape as these `scrape_configs` say."""
    config = programs.folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump({"scrape_configs": list(jobs)}))
    program = programs.start(
        "prometheus",
        debian("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={programs.folder / 'prometheus'}",
        "--web.listen-address=127.0.0.1:0",
    )
    address = await program.logged(LISTENING)
    await program.logged(r"(ready to receive web requests)")
    return Prometheus(program, address)


def _at(value: object, *keys: str) -> object:
    for key in keys:
        assert isinstance(value, dict), value
        value = value[key]
    return value


def _sample(series: object) -> str:
    value = _at(series, "value")
    assert isinstance(value, list)
    return str(value[1])
