#!/bin/sh
# Install what the tests compare against and what suites are built with: the SPARC cross compilers
# (C, C++, Fortran, both widths), qemu-user, qemu-system-sparc, the host's compiler, make and Tcl, with which some
# packages make their sources, the viewers that exported profiles are opened with, and the browser
# for pages. Needs Debian and root, or sudo without a password; elsewhere it says which tests will
# be skipped. Exit status: 0 if everything is there afterwards, 1 if not.
#
#     tools/install_toolchain.sh [--optional]      --optional: exit 0 in any case
set -u

packages="gcc-12-sparc64-linux-gnu gcc-12-multilib-sparc64-linux-gnu
    g++-12-sparc64-linux-gnu g++-12-multilib-sparc64-linux-gnu
    gfortran-12-sparc64-linux-gnu gfortran-12-multilib-sparc64-linux-gnu
    binutils-sparc64-linux-gnu qemu-user qemu-system-sparc gcc libc6-dev make tcl graphviz lcov valgrind chromium man-db lld"
commands="sparc64-linux-gnu-gcc-12 sparc64-linux-gnu-g++-12 sparc64-linux-gnu-gfortran-12
    sparc64-linux-gnu-objdump qemu-sparc64 qemu-sparc32plus qemu-sparc qemu-system-sparc
    gcc make tclsh callgrind_annotate dot gcov genhtml chromium man ld.lld"

failure=1
[ "${1:-}" = "--optional" ] && failure=0

# Commands and 32-bit libraries that are not there, one a line.
missing() {
    for command in $commands; do
        command -v "$command" >/dev/null 2>&1 || echo "$command"
    done
    has_library gcc libc.a
    has_library g++ libstdc++.a
    has_library gfortran libgfortran.a
}

# The compiler answers with another width's library, or the bare name, where it has none.
has_library() {
    compiler="sparc64-linux-gnu-$1-12"
    command -v "$compiler" >/dev/null 2>&1 || return 0
    narrow=$("$compiler" -m32 -print-file-name="$2")
    wide=$("$compiler" -m64 -print-file-name="$2")
    if [ "$narrow" = "$wide" ] || [ ! -e "$narrow" ]; then
        echo "32-bit $2"
    fi
}

give_up() {
    echo "install_toolchain: $1; missing: $(missing | paste -sd, - | sed 's/,/, /g')" >&2
    echo "install_toolchain: tests marked 'toolchain', 'qemu', 'viewers' or 'browser' that need them are skipped" >&2
    exit "$failure"
}

[ -z "$(missing)" ] && exit 0
command -v apt-get >/dev/null 2>&1 || give_up "this is not Debian: install the tools by hand"

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        give_up "not root, and sudo wants a password: run 'sudo tools/install_toolchain.sh' once"
    fi
fi

apt() {
    # shellcheck disable=SC2086  # $as_root is empty or two words
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" >/dev/null
}

# shellcheck disable=SC2086  # $packages is a list
install() {
    apt install -y --no-install-recommends $packages
}

echo "install_toolchain: installing the SPARC cross compilers, qemu-user and viewers" >&2
if ! install; then
    # Package lists may be missing or old.
    apt update || give_up "apt-get update failed"
    install || give_up "apt-get install failed"
fi
[ -z "$(missing)" ] || give_up "apt-get installed the packages, but not all is there"
