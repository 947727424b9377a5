"""Random numbers: the published generator, and streams that share nothing."""

import pytest
import torch

from rapgnn.network.weights import EVALUATION, PROBE
from rapgnn.prng import DRAWN_EMBEDDING, RANDOM_NODE_FEATURES, Stream, philox, random_words, seeded

FORWARD_PASSES = [Stream.FORWARD + n for n in range(60)]


def test_philox_matches_the_published_test_vectors():
    """Known answers of the Random123 distribution for philox4x32-10."""
    cases = [
        (0, (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (0xFFFFFFFFFFFFFFFF, (0xFFFFFFFF,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            0x299F31D0A4093822,
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ]
    for key, counter, expected in cases:
        words = philox(key, tuple(torch.tensor([c]) for c in counter))
        assert tuple(int(w) for w in words) == expected


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1])
def test_no_two_streams_of_a_seed_share_numbers(seed, fresh_random_state):
    """A thousand numbers of 62 bits each: by chance two would be equal once in 10^9 tries."""
    streams = [*(s for s in Stream.__members__.values() if s != Stream.FORWARD), *FORWARD_PASSES]
    drawn = [torch.randint(0, 1 << 62, (1000,), generator=seeded(seed, stream)) for stream in streams]
    assert len(torch.cat(drawn).unique()) == 1000 * len(streams)
    assert torch.equal(torch.randint(0, 1 << 62, (1000,), generator=seeded(seed, streams[0])), drawn[0])


def test_forward_passes_of_a_module_meet_no_other_stream():
    assert max(set(Stream) - {Stream.FORWARD}) < Stream.FORWARD


def test_random_words_of_every_place_in_a_draw_differ():
    """Layers and slots, random node features, drawn embeddings: no four words that follow one another occur twice."""
    layers = [layer + (slot << 20) for slot in range(5) for layer in (0, 1, 63, 99_999)]
    places = [*layers, RANDOM_NODE_FEATURES, *(DRAWN_EMBEDDING - 2 * i for i in range(3))]
    counters = torch.tensor([0, 1, 1 << 32, EVALUATION, PROBE])
    words = random_words(7, counters, torch.tensor(places), 64)
    blocks = words.view(-1, 4)
    assert len(blocks.unique(dim=0)) == len(blocks) == len(places) * len(counters) * 16
    assert torch.equal(random_words(7, counters, torch.tensor(places), 10), words[..., :10])  # fewer are the first
