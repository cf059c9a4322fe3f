"""Every option and its refusals, of an export called "disk" that is read-only."""

import sys

import nbd

uri = sys.argv[1]
path = uri.split("socket=")[1]


def negotiating():
    h = nbd.NBD()
    h.set_opt_mode(True)
    h.connect_unix(path)
    return h


h = negotiating()
names = []
h.opt_list(lambda name, text: names.append((name, text)))
assert names == [("disk", "memory")], names
h.set_export_name("nothing of that name")
try:
    h.opt_info()
    raise AssertionError("an export that is not there")
except nbd.Error as error:
    assert error.errno == "ENOENT", error.errno
try:
    h.opt_go()
    raise AssertionError("an export that is not there")
except nbd.Error as error:
    assert error.errno == "ENOENT", error.errno
h.set_export_name("disk")
h.set_full_info(True)
h.add_meta_context("base:allocation")
h.add_meta_context("qemu:dirty-bitmap:x")
contexts = []
h.opt_list_meta_context(contexts.append)
assert contexts == ["base:allocation"], contexts
h.opt_info()
assert h.get_size() == 16 << 20 and h.is_read_only()
assert h.get_canonical_export_name() == "disk"
assert h.get_export_description() == "memory"
h.opt_go()
assert h.can_meta_context("base:allocation") and not h.can_meta_context("qemu:dirty-bitmap:x")
h.set_strict_mode(0)
for call in (lambda: h.pwrite(bytes(512), 0), lambda: h.trim(512, 0), lambda: h.zero(512, 0)):
    try:
        call()
        raise AssertionError("a change of a read-only export")
    except nbd.Error as error:
        assert error.errno == "EPERM", error.errno
assert h.pread(512, 0) == bytes(512)
h.shutdown()

h = negotiating()
h.opt_abort()

# Old clients, with and without structured replies and fixed handshakes.
for structured in (True, False):
    for flags in (3, 2, 1, 0):
        h = nbd.NBD()
        h.set_request_structured_replies(structured)
        h.set_handshake_flags(flags)
        h.set_export_name("disk")
        h.connect_unix(path)
        assert h.pread(4096, 4096) == bytes(4096)
        assert h.get_size() == 16 << 20
        h.shutdown()

# TLS that was not configured: required by the client, it does not connect; allowed, it goes on in clear.
for mode, well in ((nbd.TLS_REQUIRE, False), (nbd.TLS_ALLOW, True)):
    h = nbd.NBD()
    if not h.supports_tls():
        break
    h.set_tls(mode)
    h.set_export_name("disk")
    try:
        h.connect_unix(path)
        assert well
    except nbd.Error:
        assert not well
print("options: well")
