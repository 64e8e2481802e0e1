"""What a store keeps for programs elsewhere: webhooks and their senders, links, signals to a workspace, keys."""

from dataclasses import replace

import pytest

from longtask.core.errors import NotFound
from longtask.store.outward import REPLAY_SLACK_MS, Link, Notice, Webhook
from tests.conformance.play import claim, ready, submit

HOUR = 3_600_000


def webhook(store, id="wh-1", **more) -> Webhook:
    made = Webhook(
        id, "https://hook.example/x", "whsec_ZmFrZQ==", ("step.*",), None, "ann", 0, 0, store.feed_end(), 0, 0
    )
    store.add_webhook(replace(made, **more))
    return store.webhook(id)


def test_a_webhook_is_kept_as_it_was_added(store):
    kept = webhook(store, workspace_id="w", since=5)
    assert (kept.url, kept.types, kept.workspace_id, kept.since) == ("https://hook.example/x", ("step.*",), "w", 5)
    assert (kept.version, kept.failures, kept.disabled_at, kept.created_at) == (1, 0, None, store.now())
    webhook(store, "wh-2")
    assert [hook.id for hook in store.webhooks("", 9)] == ["wh-1", "wh-2"]
    assert [hook.id for hook in store.webhooks("wh-1", 9)] == ["wh-2"]
    store.remove_webhook("wh-1")
    for act in (store.webhook, store.remove_webhook, store.enable_webhook):
        with pytest.raises(NotFound, match="no webhook 'wh-1'"):
            act("wh-1")


def test_one_sender_at_a_time_holds_a_webhook(store, clock):
    webhook(store)
    assert store.hold_webhook("wh-1", "a", clock.at + 30_000)
    assert store.hold_webhook("wh-1", "b", clock.at + 30_000) is None
    assert store.hold_webhook("wh-1", "a", clock.at + 60_000), "its holder prolongs it"
    clock.forward(60_000)
    held = store.hold_webhook("wh-1", "b", clock.at + 30_000)
    assert held, "whoever held it is dead"
    assert not store.move_webhook(held, "a", "7", 0)
    assert store.webhook("wh-1").cursor == held.cursor
    store.let_webhook_go("wh-1", "a")
    assert store.hold_webhook("wh-1", "a", clock.at + 1) is None, "only the holder lets it go"
    store.let_webhook_go("wh-1", "b")
    assert store.hold_webhook("wh-1", "a", clock.at + 1)


def test_a_failure_and_a_delivery_are_noted(store, clock):
    webhook(store)
    held = store.hold_webhook("wh-1", "a", clock.at + 30_000)
    assert store.fail_webhook(held, "a", 1, clock.at + 5_000, "answer 500\0" + "x" * 5_000, None)
    now = store.webhook("wh-1")
    assert (now.failures, now.due_at, now.disabled_at) == (1, clock.at + 5_000, None)
    assert now.said is not None and now.said.startswith("answer 500?") and len(now.said) == 1_000
    assert store.move_webhook(now, "a", "9.9", 2, clock.at)
    now = store.webhook("wh-1")
    assert (now.cursor, now.part, now.failures, now.due_at, now.said) == ("9.9", 2, 0, 0, None)
    assert now.delivered_at == clock.at
    assert store.move_webhook(now, "a", "9.10", 0), "passed over what does not fit"
    assert store.webhook("wh-1").delivered_at == clock.at


def test_a_replay_wins_against_the_sender_that_is_under_way(store, clock):
    webhook(store)
    held = store.hold_webhook("wh-1", "a", clock.at + 30_000)
    store.replay_webhook("wh-1", clock.at)
    assert not store.move_webhook(held, "a", "77", 0)
    assert not store.fail_webhook(held, "a", 9, 0, "", clock.at)
    now = store.webhook("wh-1")
    assert (now.cursor, now.since, now.version) == ("", clock.at, 2)


def test_a_disabled_webhook_is_held_by_nobody_until_it_is_enabled(store, clock):
    webhook(store)
    held = store.hold_webhook("wh-1", "a", clock.at + 30_000)
    assert store.fail_webhook(held, "a", 9, 0, "gone", clock.at)
    assert store.hold_webhook("wh-1", "a", clock.at + 30_000) is None
    assert store.webhook("wh-1").disabled_at == clock.at
    store.enable_webhook("wh-1")
    now = store.hold_webhook("wh-1", "a", clock.at + 30_000)
    assert now is not None and (now.failures, now.disabled_at, now.said) == (0, None, None)


def test_the_feed_is_found_again_by_time(store, clock):
    """Nothing of the instant or later is missed, and little of what was before it comes along."""
    begun = clock.at
    for number in range(1, 41):
        submit(store, number, ready("a"))
        clock.forward(HOUR)
    assert store.feed_since(begun) == ""
    for hour in (1, 2, 17, 39):
        events, _ = store.feed(store.feed_since(begun + hour * HOUR), 500)
        assert {event.at for event in events} == {begun + n * HOUR for n in range(hour, 40)}
    assert store.feed(store.feed_since(clock.at + HOUR), 9)[0] == []
    events, _ = store.feed(store.feed_since(begun + HOUR + REPLAY_SLACK_MS), 500)
    assert events[0].at == begun + HOUR, "what may have come out of order comes along"


def test_behind_the_end_of_the_feed_comes_what_happens_next(store):
    assert store.feed(store.feed_end(), 9)[0] == []
    id_ = submit(store, 1, ready("a"))
    end = store.feed_end()
    assert store.feed(end, 9)[0] == []
    claim(store, id_, "a")
    assert [event.seq for event in store.feed(end, 9)[0]] == [2]


def test_a_link_is_used_once(store, clock):
    store.add_link(Link("l-1", "t", "gate", 3, "abc", "ann", "bob", 0, clock.at + HOUR))
    kept = store.link("l-1")
    assert kept == Link("l-1", "t", "gate", 3, "abc", "ann", "bob", clock.at, clock.at + HOUR)
    assert store.use_link("l-1", "approve")
    assert not store.use_link("l-1", "reject")
    assert (store.link("l-1").answer, store.link("l-1").used_at) == ("approve", clock.at)
    with pytest.raises(NotFound, match="no such link"):
        store.link("l-2")


def notice(delivery="d-1", workspace_id="w") -> Notice:
    return Notice(0, workspace_id, delivery, "ci.completed", "github", 0, None, {"sha": "abc"})


def test_a_notice_is_stored_once_for_its_delivery(store, clock):
    first, new = store.add_notice(notice())
    assert new and first.copied == 0 and first.at == clock.at and first.payload == {"sha": "abc"}
    clock.forward(9)
    again, new = store.add_notice(replace(notice(), payload={"sha": "other"}))
    assert not new and again == first
    other, new = store.add_notice(notice(workspace_id="v"))
    assert new and other.n > first.n
    assert [n.n for n in store.open_notices(9)] == [first.n, other.n]


def test_a_notice_stays_open_until_every_open_task_has_it(store):
    ids = [submit(store, n, ready("a"), workspace_id="w" if n % 2 else "v") for n in range(1, 7)]
    kept, _ = store.add_notice(notice())
    page = store.notice_tasks(kept, 2)
    assert [task.id for task in page] == [ids[0], ids[2]]
    store.move_notice(kept.n, page[-1].n)
    (kept,) = store.open_notices(9)
    assert [task.id for task in store.notice_tasks(kept, 9)] == [ids[4]]
    store.move_notice(kept.n, None)
    assert store.open_notices(9) == []
    everywhere, _ = store.add_notice(notice(workspace_id=""))
    assert [task.id for task in store.notice_tasks(everywhere, 9)] == ids


def test_what_nobody_asks_for_any_more_is_forgotten(store, clock):
    store.add_link(Link("l-1", "t", "gate", 3, None, "ann", "bob", 0, clock.at + HOUR))
    done, _ = store.add_notice(notice())
    store.move_notice(done.n, None)
    store.add_notice(notice("d-2"))
    assert store.forget_outward(9) == 0
    clock.forward(100 * 24 * HOUR)
    assert store.forget_outward(9) == 2
    assert [n.delivery for n in store.open_notices(9)] == ["d-2"], "one that is still being copied stays"


def test_a_signing_key_is_made_once(open_store):
    one = open_store()
    key = one.signing_key("callback")
    assert len(key) == 32
    assert one.signing_key("callback") == key
    assert one.signing_key("link") != key
    two = open_store()
    if getattr(two, "path", None) != ":memory:":
        assert two.signing_key("callback") == key
