# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Pack the Python package and libstarling into a wheel: make_wheel.py SRCDIR STAGE VERSION STARPU (build-aux/wheel).

STAGE/lib has the library, and StarPU's. STAGE/_options.pyi has the types of the options. The wheel goes into STAGE.
auditwheel adds the other libraries.
"""

import base64
import hashlib
import os
import sys
import zipfile


def forget(text, starpu):
    """StarPU warns if the folder of its stored performance models cannot be read. The root folder takes its place."""
    path = os.path.join(starpu, "share/starpu/perfmodels/sampling").encode()
    if path in text:
        text = text.replace(path + b"\0", b"/".ljust(len(path) + 1, b"\0"))
    return text


def files(srcdir, stage, version, starpu):
    """Pairs of a name in the wheel and its bytes."""
    package = os.path.join(srcdir, "python", "starling_gnn")
    for name in sorted(os.listdir(package)):
        if name.endswith((".py", "py.typed")):
            with open(os.path.join(package, name), "rb") as file:
                yield "starling_gnn/" + name, file.read()
    with open(os.path.join(stage, "_options.pyi"), "rb") as file:
        yield "starling_gnn/_options.pyi", file.read()
    with open(os.path.join(stage, "lib", "libstarling.so.1"), "rb") as file:
        yield "starling_gnn/lib/libstarling.so.1", file.read()
    info = f"starling_gnn-{version}.dist-info/"
    with open(os.path.join(srcdir, "doc", "guide", "python.md"), encoding="utf-8") as file:
        description = file.read()
    yield (
        info + "METADATA",
        f"""Metadata-Version: 2.1
Name: starling-gnn
Version: {version}
Summary: Graph neural networks on one large graph, on CPUs and GPUs
License: MIT
Requires-Python: >=3.9
Requires-Dist: numpy
Provides-Extra: tools
Requires-Dist: matplotlib; extra == "tools"
Requires-Dist: pandas; extra == "tools"
Requires-Dist: pyarrow; extra == "tools"
Requires-Dist: pyyaml; extra == "tools"
Requires-Dist: scikit-learn; extra == "tools"
Requires-Dist: scipy; extra == "tools"
Description-Content-Type: text/markdown

{description}""".encode(),
    )
    yield (
        info + "WHEEL",
        b"""Wheel-Version: 1.0
Generator: starling
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
""",
    )
    yield info + "entry_points.txt", b"[console_scripts]\nstarling = starling_gnn.__main__:main\n"
    with open(os.path.join(srcdir, "COPYING"), "rb") as file:
        yield info + "licenses/COPYING", file.read()
    licence = os.path.join(starpu, "share/doc/starpu/COPYING.LGPL")
    if os.path.exists(licence):
        with open(licence, "rb") as file:
            yield info + "licenses/StarPU-COPYING.LGPL", file.read()


def main(srcdir, stage, version, starpu):
    libraries = os.path.join(stage, "lib")
    for name in os.listdir(libraries):
        path = os.path.join(libraries, name)
        with open(path, "rb") as file:
            text = file.read()
        with open(path, "wb") as file:
            file.write(forget(text, starpu))
    record = []
    info = f"starling_gnn-{version}.dist-info/"
    path = os.path.join(stage, f"starling_gnn-{version}-py3-none-linux_x86_64.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, text in files(srcdir, stage, version, starpu):
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name.endswith(".so.1") else 0o644) << 16
            wheel.writestr(entry, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(text)}")
        record.append(info + "RECORD,,")
        wheel.writestr(zipfile.ZipInfo(info + "RECORD", (2020, 1, 1, 0, 0, 0)), "\n".join(record) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
