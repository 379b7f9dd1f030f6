"""Arrays in the room of gradients that are not written yet."""

from __future__ import annotations

from mxjax.memonger.model.gradient_buffers import LiveRange, reusing


def test_an_array_waits_where_it_fits_until_the_gradient_is_written() -> None:
    fits, large, late = (
        LiveRange("fits", 0, 8, 10),
        LiveRange("large", 0, 8, 11),
        LiveRange("late", 0, 9, 10),
    )
    assert reusing([fits], [(10, 9)]) == {"fits"}
    assert reusing([large], [(10, 9)]) == set()
    assert reusing([late], [(10, 9)]) == set()
    assert reusing([fits], []) == set()
    assert reusing([LiveRange("nothing", 0, 1, 0)], [(10, 9)]) == set()


def test_a_room_has_one_guest_at_a_time() -> None:
    first, second, third = LiveRange(1, 0, 4, 5), LiveRange(2, 4, 6, 4), LiveRange(3, 5, 7, 4)
    assert reusing([first, second], [(10, 9)]) == {1}
    assert reusing([first, third], [(10, 9)]) == {1, 3}
    assert reusing([first, second, third], [(10, 9), (4, 9)]) == {1, 2, 3}


def test_the_largest_goes_first_into_the_smallest_room() -> None:
    small, big = LiveRange("small", 0, 5, 3), LiveRange("big", 0, 5, 8)
    assert reusing([small, big], [(8, 9)]) == {"big"}
    assert reusing([small, big], [(8, 9), (20, 9)]) == {"small", "big"}
