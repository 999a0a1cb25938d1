#!/bin/sh
# Install Whimbrel on this machine: the program in /opt/whimbrel, its user, its directories and the systemd units of all roles.
# The units of the given roles are enabled; nothing is started, restarted or removed.
# To upgrade, or to go back, run the script of another checkout, then restart the units one after another.
set -eu

usage() {
    cat <<EOF
usage: packaging/install.sh [--wheels DIR] [ROLE...]

ROLE          api, conductor, console, dashboard, placement, image, volume or agent
--wheels DIR  install these wheels, from 'make wheels', without access to PyPI or a compiler
PYTHON        environment variable: Python 3.11 or newer (default: python3)
EOF
}

die() {
    echo "install.sh: $1" >&2
    exit 1
}

# Ensure that a program is there, from Debian's packages.
need() {
    program=$1
    shift
    PATH=$PATH:/usr/sbin command -v "$program" >/dev/null && return
    command -v apt-get >/dev/null || die "$program is missing: install the packages that have it (on Debian: $*)"
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

wheels=''
while [ $# -gt 0 ]; do
    case "$1" in
        --wheels)
            [ -d "${2-}" ] || die "--wheels needs a directory"
            wheels=$(cd "$2" && pwd)
            shift 2
            ;;
        -h | --help)
            usage
            exit
            ;;
        *) break ;;
    esac
done
for role in "$@"; do
    case "$role" in
        api | conductor | console | dashboard | placement | image | volume | agent) ;;
        *)
            usage >&2
            exit 2
            ;;
    esac
done
[ "$(id -u)" = 0 ] || die "only root can install units and users: run it with sudo"
PYTHON=${PYTHON:-python3}
"$PYTHON" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
    || die "$PYTHON is not Python 3.11 or newer with venv: apt-get install python3-venv, or set PYTHON"
case "$("$PYTHON" -c 'import os, sys; print(os.path.realpath(sys.base_prefix))')/" in
    /home/* | ~root/*) die "$PYTHON is in a home directory, which the units cannot read: set PYTHON to /usr/bin/python3" ;;
esac

umask 022
cd "$(dirname "$0")/.."
base=/opt/whimbrel
library=/usr/local/lib

package=.
extras=fencing
[ -z "$wheels" ] || package=whimbrel
case " $* " in
    *' volume '*) need qemu-storage-daemon qemu-system-common ;;
esac
case " $* " in
    *' agent '*)
        need qemu-img qemu-utils
        need libvirtd libvirt-daemon-system qemu-system-x86
        [ -n "$wheels" ] || need pkg-config gcc pkg-config libvirt-dev python3-dev
        extras=fencing,libvirt,volumes
        ;;
    *) [ ! -e "$base/current/.libvirt" ] || extras=fencing,libvirt,volumes ;;
esac
package="$package[$extras]"

# Each version has a directory of its own, named after all that it is made of: running processes keep their files.
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
parts() {
    "$PYTHON" -VV
    echo "$package"
    if [ -n "$wheels" ]; then
        cat "$wheels"/*.whl
    else
        cat pyproject.toml constraints.txt README.md
        find src -type f ! -name '*.pyc' | LC_ALL=C sort | xargs cat
    fi
}
home=$base/$version-$(parts | sha256sum | cut -c1-12)
if [ ! -e "$home/.complete" ]; then
    rm -rf "$home"
    "$PYTHON" -m venv "$home"
    if [ -n "$wheels" ]; then
        "$home/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links "$wheels" "$package"
    else
        "$home/bin/pip" install --quiet --disable-pip-version-check --constraint constraints.txt "$package"
    fi
    case "$package" in *libvirt*) touch "$home/.libvirt" ;; esac
    touch "$home/.complete"
fi
ln -sfn "$home" "$base/current.new"
mv -T "$base/current.new" "$base/current"
ln -sfn "$base/current/bin/whimbrel" /usr/local/bin/whimbrel
share=/usr/local/share
install -D -m 644 packaging/man/whimbrel.1 "$share/man/man1/whimbrel.1"
mkdir -p "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
"$base/current/bin/whimbrel" completion bash >"$share/bash-completion/completions/whimbrel"
"$base/current/bin/whimbrel" completion zsh >"$share/zsh/site-functions/_whimbrel"
"$base/current/bin/whimbrel" completion fish >"$share/fish/vendor_completions.d/whimbrel.fish"

cd packaging/systemd
for unit in whimbrel-*.service whimbrel-*.service.d/*.conf storage-whimbrel*; do
    install -D -m 644 "$unit" "$library/systemd/system/$unit"
done
for kind in sysusers tmpfiles; do
    install -D -m 644 "whimbrel.$kind.conf" "$library/$kind.d/whimbrel.conf"
done
systemd-sysusers whimbrel.conf
systemd-tmpfiles --create whimbrel.conf
[ ! -d /run/systemd/system ] || systemctl daemon-reload
for role in "$@"; do
    systemctl --quiet enable "whimbrel-$role.service"
done

echo "Whimbrel $version is installed in $home"
[ -e /etc/whimbrel/whimbrel.toml ] || echo "Next: write /etc/whimbrel/whimbrel.toml (see docs/deploy.md)"
for role in "$@"; do
    echo "Then: systemctl restart whimbrel-$role"
done
