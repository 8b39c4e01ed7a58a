"""The standalone binary's first lines: the program, or one of its modules as `python -m` runs it.

The program starts parts of itself as `sys.executable -P -m MODULE`. Here `sys.executable` is the
program, so it has to understand these words as Python does. A module that is not ours is an
argument like any other, which the program refuses.
"""

import ctypes
import os
import runpy
import sys


def _give_back_library_path() -> None:
    """What PyInstaller set is for this process, which has read it: other programs (an exec plugin
    of a kubeconfig, crictl) must not load our libraries.
    """
    before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    os.environ.pop("LD_LIBRARY_PATH", None)
    if before:
        os.environ["LD_LIBRARY_PATH"] = before


def _look_up_names_ourselves() -> None:
    """The node's nsswitch.conf may name libraries that were built for another C library."""
    configure = getattr(ctypes.CDLL(None), "__nss_configure_lookup")
    configure(b"hosts", b"files dns")


def _module(words: list[str]) -> list[str]:
    """The module that the words ask for and its arguments, or nothing."""
    rest = words[1:] if words[:1] == ["-P"] else words
    is_ours = len(rest) > 1 and rest[0] == "-m" and f"{rest[1]}.".startswith("pyrbacproxy.")
    return rest[1:] if is_ours else []


_give_back_library_path()
_look_up_names_ourselves()
if asked := _module(sys.argv[1:]):
    sys.argv[1:] = asked[1:]
    runpy.run_module(asked[0], run_name="__main__", alter_sys=True)
else:
    from pyrbacproxy.__main__ import main

    sys.exit(main())
