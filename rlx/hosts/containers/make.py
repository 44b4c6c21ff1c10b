"""Make the container of an image on its host, or find the one that was made before. One command on the host.

Docker's own SDK would open an ssh connection a request, and breaks in most calls over it.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlx.hosts.containers.locate import docker_script, not_made
from rlx.hosts.host_errors import HostError, reading_answer
from rlx.hosts.inventory.inventory import made_name
from rlx.hosts.script_parts import slim
from rlx.hosts.transports import transport_for
from rlx.model import Cmd, Image, Site
from rlx.resources import payload_folder

# Docker may unpack nothing, but a slow disk and the devices of a big host take their time.
_TIMEOUT_S = 200.0


@dataclass(frozen=True, slots=True)
class MadeContainer:
    """A running container of an image. `is_new`: it was made by this call.

    `id` and `image_id` are docker's full ones; `digests` are `name@sha256:…`, none for an image that was built there.
    `root` is the folder of runs, under the same name on the host and in the container.
    """

    host: str
    name: str
    id: str
    image: str
    image_id: str
    digests: tuple[str, ...]
    root: str
    is_new: bool


def make_container(site: Site, image: Image) -> MadeContainer:
    """Make the container of the image on the site's host and start it, unless it is there. Fetches no image.

    Raises ContainerGone for what keeps it from running (no image of that name, no rights, another one of its name), and
    HostError for a host that does not answer.
    """
    completed = transport_for(site.place).run(_making(site, image), timeout_s=_TIMEOUT_S)
    if completed.code != 0:
        complaint = completed.err.decode(errors="replace").strip() or f"exit {completed.code}"
        raise HostError(f"{site.host}: cannot make a container of {image.name}: {complaint}")
    with reading_answer(site.host, f"what became of the container of {image.name}"):
        return _parse(site, image, completed.out.decode(errors="replace"))


def _making(site: Site, image: Image) -> Cmd:
    main = slim((payload_folder() / "container_main.sh").read_text(encoding="utf-8")).decode()
    keep = "keep" if image.keep else "remove"
    words = (made_name(image), image.name, site.root, keep, image.user or "", main, *image.mounts)
    return Cmd("sh", "-c", docker_script("docker_run.sh", "container.sh"), "container.sh", *words)


def _parse(site: Site, image: Image, answer: str) -> MadeContainer:
    words = [line.partition(" ")[::2] for line in answer.splitlines()]
    values = dict(words)
    if "error" in values:
        kind, _, text = values["error"].strip().partition(" ")
        raise not_made(site, image.name, made_name(image), kind, text.strip())
    return MadeContainer(
        site.host,
        made_name(image),
        values["id"],
        image.name,
        values["image_id"],
        tuple(digest for key, digest in words if key == "digest"),
        values["root"],
        values["made"] == "yes",
    )
