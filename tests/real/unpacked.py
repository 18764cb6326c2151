"""Programs of Debian packages that .ci/tools unpacks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from real.parts import missing


class Unpacked:
    """A Debian package: installed, or in the cache of .ci/tools, where its libraries are, too.

    ``file`` is the program in the package.
    """

    def __init__(self, command: str, file: str | None = None) -> None:
        file = file or f"usr/sbin/{command}"
        cache = os.environ.get("ROWTIDE_CACHE")
        base = Path(cache) if cache else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "rowtide"
        own = base.expanduser() / command
        found = shutil.which(command) or shutil.which(command, path="/usr/sbin")
        if found is None and not (own / file).exists():
            missing(command, "it is not installed; get it with: bash .ci/tools")
        self.root = Path("/") if found else own
        self.command = found or str(own / file)
        # Some libraries look for others in folders of their own.
        libraries = sorted({str(each.parent) for each in own.glob("**/*-linux-gnu/**/*.so*")})
        self.environment = dict(os.environ)
        if found is None:
            self.environment["LD_LIBRARY_PATH"] = os.pathsep.join(libraries)
