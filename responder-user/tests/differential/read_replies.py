#!/usr/bin/python3
"""Reads replies with dnspython, which shares no code with the product.

Usage: read_replies.py FILE LEAST
FILE holds pairs of messages, query and reply, each behind its length in two octets. At least LEAST of them must be there.
Prints how many replies of each kind there were; ends with 1 at the first difference.
"""

import collections
import struct
import sys

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype

NSID, ECS, COOKIE = 3, 8, 10


def pairs(data):
    at = 0
    while at < len(data):
        both = []
        for _ in range(2):
            (length,) = struct.unpack_from(">H", data, at)
            both.append(data[at + 2 : at + 2 + length])
            assert len(both[-1]) == length, "the file ends in a message"
            at += 2 + length
        yield both


def options_of(message):
    return [(int(option.otype), option.to_wire()) for option in message.options]


def check_options(asked, told):
    codes = [code for code, _ in told]
    assert len(set(codes)) == len(codes), f"an option stands twice: {codes}"
    for code, data in told:
        of = next((data for asked_code, data in asked if asked_code == code), None)
        assert of is not None, f"option {code} was not asked for"
        if code == COOKIE:
            assert len(data) == 24 and data[:8] == of[:8], "the cookie is not the client's with one of ours"
        elif code == ECS:
            assert data[:3] == of[:3] and data[4:] == of[4:], "not the client's subnet"
            assert data[3] <= (32 if data[1] == 1 else 128), "a scope that no address has"
        else:
            assert code == NSID, f"option {code} in a reply"


def check(query, reply):
    # Raises for octets behind the message, counts that lie, pointers that lead nowhere, data of the wrong length.
    # It does not read opcodes that nobody uses; ours comes back as it was, which is checked below.
    as_query = bytes([reply[0], reply[1], reply[2] & 0x87]) + reply[3:]
    read = dns.message.from_wire(as_query, ignore_trailing=False, one_rr_per_rrset=True)
    head = struct.unpack(">6H", reply[:12])
    assert reply[:2] == query[:2], "another id"
    assert read.flags & dns.flags.QR, "no response"
    assert reply[2] & 0x78 == query[2] & 0x78, "another opcode"
    assert not read.flags & dns.flags.RA, "RA"
    assert len(read.question) == head[2] and len(read.answer) == head[3] and len(read.authority) == head[4]
    assert len(read.additional) + (read.edns >= 0) == head[5], "additional records"
    assert len(reply) <= 1232
    if head[2]:
        end = 12 + len(read.question[0].name.to_wire()) + 4
        assert reply[12:end] == query[12:end], "another question"
    if read.edns >= 0:
        assert (read.edns, read.payload) == (0, 1232), "another OPT than ours"
    try:
        asked = dns.message.from_wire(query, ignore_trailing=False)
    except (dns.exception.DNSException, ValueError, struct.error):
        return f"{dns.rcode.to_text(read.rcode())}, to a query that cannot be read"
    rcode = read.rcode()
    if rcode not in (dns.rcode.FORMERR, dns.rcode.NOTIMP):
        assert (read.edns >= 0) == (asked.edns >= 0), "OPT for OPT"
    if read.edns >= 0 and asked.edns >= 0:
        assert (read.ednsflags ^ asked.ednsflags) & dns.flags.DO == 0, "another DO"
        check_options(options_of(asked), options_of(read))
    kinds = [dns.rcode.to_text(rcode)]
    if read.answer or read.authority:
        assert read.flags & dns.flags.AA, "records without authority"
        question = read.question[0]
        for record in read.answer:
            # RFC 8482: ANY gets HINFO.
            asked_for = dns.rdatatype.HINFO if question.rdtype == dns.rdatatype.ANY else question.rdtype
            assert record.name == question.name and record.rdtype == asked_for, "not what was asked"
        for record in read.authority:
            assert record.rdtype == dns.rdatatype.SOA and question.name.is_subdomain(record.name), "no SOA above"
        assert not (read.answer and read.authority)
        kinds.append(f"{len(read.answer)} records" if read.answer else "SOA")
    if read.flags & dns.flags.TC:
        kinds.append("TC")
    return ", ".join(kinds)


def main():
    path, least = sys.argv[1], int(sys.argv[2])
    with open(path, "rb") as file:
        data = file.read()
    kinds = collections.Counter()
    for query, reply in pairs(data):
        try:
            kinds[check(query, reply)] += 1
        except Exception as error:
            print(f"{type(error).__name__}: {error}\nquery {query.hex()}\nreply {reply.hex()}")
            return 1
    for kind, count in sorted(kinds.items()):
        print(f"{count:8} {kind}")
    total = sum(kinds.values())
    print(f"{total:8} replies read by dnspython")
    return 0 if total >= least else 1


sys.exit(main())
