#!/usr/bin/env bash
# Usage: release/manylinux.sh FOLDER
#
# Makes what manylinux_2_28's containers have and a newer Debian does not: FOLDER/glibc, libraries to
# link against that offer no symbol younger than glibc 2.28, and FOLDER/openmp, a libgomp that uses none.
# The former are those that Zig makes of its list of glibc's symbols; the latter is built from Debian's
# source of the compiler that is used.
set -euo pipefail
mkdir -p "$1/glibc" "$1/openmp"
glibc=$(cd "$1/glibc" && pwd)
openmp=$(cd "$1/openmp" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check ziglang==0.17.1
export ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig
zig() { "$work/venv/bin/python" -m ziglang "$@"; }

echo 'int main(void) { return 0; }' >"$work/main.c"
zig cc -target x86_64-linux-gnu.2.28 "$work/main.c" -o "$work/main"
stubs=$(dirname "$(find "$work/zig" -name libc.so.6)")
for library in libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1; do
  cp "$stubs/$library" "$glibc"
  ln -sf "$library" "$glibc/${library%.so*}.so"
done
cp "$stubs/libc.so.6" "$glibc"
cp "$stubs/libld.so.2" "$glibc/ld-linux-x86-64.so.2"
cp "$(find "$work/zig" -name libc_nonshared.a)" "$glibc"
gcc -O2 -fPIC -fvisibility=hidden -c "$here/newer_glibc.c" -o "$work/newer_glibc.o"
ar rc "$glibc/libnewer_glibc.a" "$work/newer_glibc.o"
cat >"$glibc/libc.so" <<'LINKER'
GROUP(libc.so.6 libc_nonshared.a libnewer_glibc.a AS_NEEDED(ld-linux-x86-64.so.2))
LINKER

cd "$work"
gcc_package=gcc-$(gcc -dumpversion)-source
apt-get -qq download "$gcc_package"
dpkg-deb -x "$gcc_package"_*.deb package
mkdir gcc libgomp
tar -xf package/usr/src/gcc-*/gcc-*.tar.xz -C gcc --strip-components=1 --wildcards \
  '*/libgomp' '*/include' '*/config' '*/gcc/BASE-VER' '*/config*' '*/lt*' '*/libtool*' '*/missing' \
  '*/install-sh' '*/depcomp' '*/compile' '*/mkinstalldirs' '*/move-if-change'
cd libgomp
../gcc/libgomp/configure --disable-multilib --disable-werror --disable-static CFLAGS="-O2 -g0" \
  LDFLAGS="-L$glibc" >configure.log 2>&1 || { cat configure.log; exit 1; }
make >make.log 2>&1 || { cat make.log; exit 1; }
cp .libs/libgomp.so.1.0.0 "$openmp/libgomp.so.1"
ln -sf libgomp.so.1 "$openmp/libgomp.so"
