#!/bin/sh
# Installs the Debian packages that the Makefile names, when root; says what is missing when not.
#
# packages  "package:program ..." - a package counts as present when its program, or file, is found
# python    the interpreter that will make the virtual environment
#
# Debian starts some services when their package is installed. None of them is wanted: a
# policy-rc.d that forbids starting stands while apt works, unless the machine has its own.
set -eu

PATH=$PATH:/usr/sbin:/sbin # nginx lives there, and an ordinary user's PATH lacks it

missing=""
for pair in $packages; do
	command -v "${pair#*:}" >/dev/null || [ -e "${pair#*:}" ] || missing="$missing ${pair%%:*}"
done
if [ -z "$python" ]; then
	missing="$missing python3 python3-venv"
# One that isn't there is no package's to bring: the Makefile names it.
elif "$python" -c "" 2>/dev/null && ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
	missing="$missing python3-venv"
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "missing:$missing" >&2
	echo "Not root on Debian, so they are not installed here. Tests and benchmarks that run them fail; as root:" >&2
	echo "  apt-get update && apt-get install$missing" >&2
	exit 0
fi

policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	trap 'exit 1' INT TERM
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi
echo "installing:$missing"
apt-get update -qq
# $missing is a list on purpose.
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null
