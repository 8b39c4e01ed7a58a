from pyrbacproxy.http2.stream import Outbox


def test_pieces_leave_in_order_cut_and_joined_as_there_is_room() -> None:
    box = Outbox()
    for piece in (b"ab", b"", memoryview(b"cdefg"), b"h", b"i", b"jk"):
        box.put(piece)
    assert box.size == 11
    assert [bytes(box.take(room)) for room in (1, 2, 3, 2, 9, 9)] == [
        b"a",
        b"b",
        b"cde",
        b"fg",
        b"hijk",
        b"",
    ]
    assert box.size == 0


def test_what_is_cleared_is_gone() -> None:
    box = Outbox()
    box.put(b"abc")
    box.clear()
    assert (box.size, box.take(9)) == (0, b"")


def test_a_joined_piece_is_no_longer_than_there_is_room() -> None:
    box = Outbox()
    for piece in (b"ab", b"cd", b"ef"):
        box.put(piece)
    assert bytes(box.take(5)) == b"abcd"
