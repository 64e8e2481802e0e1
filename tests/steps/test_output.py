"""Output is cut and bounded without losing what matters, and its failures are told apart."""

import random
import re

import pytest

from longtask.steps.output import OutputBuffer, OutputChunk, plain, sealed, tail


def drain(buffer: OutputBuffer, now_ms: int = 0) -> list[OutputChunk]:
    return buffer.take(now_ms, final=True)


def test_small_output_is_taken_every_quarter_of_a_second():
    buffer = OutputBuffer()
    buffer.feed(b"one\n")
    assert [chunk.content for chunk in buffer.take(1000)] == [b"one\n"]  # the first at once
    buffer.feed(b"two\n")
    assert buffer.take(1249) == []
    buffer.feed(b"three\n")
    assert buffer.take(1250) == [OutputChunk(2, 4, b"two\nthree\n")]
    assert buffer.take(2000) == []


def test_full_chunks_are_taken_at_once_and_end_with_a_line():
    buffer = OutputBuffer(chunk_bytes_max=100)
    buffer.feed(b"x" * 10)
    buffer.take(0)
    buffer.feed(b"x" * 39 + (b"y" * 59 + b"\n") * 3)
    chunks = buffer.take(1)
    assert [len(chunk.content) for chunk in chunks] == [99, 60]
    assert all(chunk.content.endswith(b"\n") for chunk in chunks)
    assert drain(buffer) == [OutputChunk(4, 169, b"y" * 59 + b"\n")]


def test_no_chunk_cuts_a_character():
    text = "aä€𝄞" * 200
    buffer = OutputBuffer(chunk_bytes_max=64)
    chunks = []
    content = text.encode()
    for at in range(0, len(content), 3):
        buffer.feed(content[at : at + 3])
        chunks += buffer.take(at * 100)
    chunks += drain(buffer)
    assert "".join(chunk.content.decode() for chunk in chunks) == text


def test_bytes_that_are_no_text_are_kept_as_they_are():
    content = bytes(range(256)) * 50
    buffer = OutputBuffer(chunk_bytes_max=1000)
    buffer.feed(content)
    assert sealed(buffer.take(0) + drain(buffer)) == content
    buffer.feed(b"\xf0\x9f")  # half a character at the very end
    assert sealed(drain(buffer)).endswith(b"\xf0\x9f")


@pytest.mark.parametrize("seed", range(20))
def test_the_first_and_the_last_part_are_kept_and_the_gap_is_told(seed):
    chance = random.Random(seed)
    content = b"".join(b"line %d\n" % n for n in range(chance.randrange(10, 3000)))
    maximum = chance.choice([500, 2000, 5000])
    buffer = OutputBuffer(bytes_max=maximum, chunk_bytes_max=chance.choice([50, 200]))
    kept: dict[int, OutputChunk] = {}
    at = now = 0
    numbers = []
    while at < len(content):
        size = chance.randrange(1, 700)
        buffer.feed(content[at : at + size])
        at += size
        now += chance.choice([0, 10, 300])
        for chunk in buffer.take(now) if chance.random() < 0.7 else []:
            kept[chunk.number] = chunk
            numbers.append(chunk.number)
        for number in buffer.forget():
            del kept[number]
        assert sum(len(chunk.content) for chunk in kept.values()) <= maximum + 200
    for chunk in drain(buffer, now):
        kept[chunk.number] = chunk
        numbers.append(chunk.number)
    for number in buffer.forget():
        del kept[number]
    assert numbers == list(range(1, len(numbers) + 1))
    assert buffer.total_bytes == len(content)
    result = sealed(kept.values())
    if len(content) <= maximum:
        assert result == content
        assert buffer.left_out_bytes == 0
        return
    first, gap, last = re.split(rb"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n", result)
    assert content.startswith(first) and content.endswith(last)
    assert len(first) == maximum // 2
    assert maximum // 2 <= len(last) <= maximum // 2 + 200
    assert int(gap) == buffer.left_out_bytes == len(content) - len(first) - len(last)


def test_a_flood_costs_little_memory_and_few_chunks():
    buffer = OutputBuffer(bytes_max=1_000_000)
    block = b"x" * 99_999 + b"\n"
    written = 0
    for now in range(0, 2_000, 10):  # 100 MB in two seconds
        for _ in range(5):
            buffer.feed(block)
        written += sum(len(chunk.content) for chunk in buffer.take(now))
    written += sum(len(chunk.content) for chunk in drain(buffer))
    assert buffer.total_bytes == 100_000_000
    assert written < 500_000 + 8 * 4 * 65_536 + 500_000 + 65_536
    assert buffer.left_out_bytes > 98_000_000


def test_the_tail_is_the_last_lines_that_say_something():
    buffer = OutputBuffer(bytes_max=100)
    buffer.feed(b"".join(b"\x1b[31mline %d\x1b[0m\r\n\n" % n for n in range(100_000)))
    assert buffer.tail(lines=2) == "line 99998\nline 99999"
    assert buffer.tail(lines=1_000, bytes_max=15) == "8\nline 99999"[-15:] or buffer.tail(bytes_max=10) == "line 99999"
    assert tail(b"") == ""
    assert tail("€".encode() * 10, bytes_max=7) == "€€"


def test_plain_text_has_no_colours_controls_and_overwritten_lines():
    assert plain(b"\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x1b\\ a\x08\x00b") == "red link ab"
    assert plain(b"10%\r50%\r100%\ndone\r\n") == "100%\ndone\n"
    assert plain(b"\xff ok") == "� ok"
    assert plain(b"title \x1b]0;never ended\nnext line") == "title \nnext line"
