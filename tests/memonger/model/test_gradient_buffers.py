"""Arrays in the room of gradients that are not written yet."""

from __future__ import annotations

from mxjax.memonger.model.gradient_buffers import Stay, lodged


def test_an_array_waits_where_it_fits_until_the_gradient_is_written() -> None:
    fits, large, late = Stay("fits", 0, 8, 10), Stay("large", 0, 8, 11), Stay("late", 0, 9, 10)
    assert lodged([fits], [(10, 9)]) == {"fits"}
    assert lodged([large], [(10, 9)]) == set()
    assert lodged([late], [(10, 9)]) == set()
    assert lodged([fits], []) == set()
    assert lodged([Stay("nothing", 0, 1, 0)], [(10, 9)]) == set()


def test_a_room_has_one_guest_at_a_time() -> None:
    first, second, third = Stay(1, 0, 4, 5), Stay(2, 4, 6, 4), Stay(3, 5, 7, 4)
    assert lodged([first, second], [(10, 9)]) == {1}
    assert lodged([first, third], [(10, 9)]) == {1, 3}
    assert lodged([first, second, third], [(10, 9), (4, 9)]) == {1, 2, 3}


def test_the_largest_goes_first_into_the_smallest_room() -> None:
    small, big = Stay("small", 0, 5, 3), Stay("big", 0, 5, 8)
    assert lodged([small, big], [(8, 9)]) == {"big"}
    assert lodged([small, big], [(8, 9), (20, 9)]) == {"small", "big"}
