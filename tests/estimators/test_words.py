"""What a search chose, in words."""

from rapgnn.estimators.words import chosen_words
from rapgnn.models.average import Average
from rapgnn.models.net_config import NetConfig
from rapgnn.models.random_net import RandomNet


def net(**settings):
    return RandomNet(3, 2, config=NetConfig(**settings))


def test_members_that_count_here_are_named_and_the_same_ones_once():
    far = net(num_layers=8, jumping="ppr")
    model = Average([net(known=1), far, far, net(num_layers=1)], ["here", "both", "both", "elsewhere"])
    assert chosen_words(model) == "the average of 3, gcn, 2 hops, known labels; 2 x gcn, 8 hops"


def test_one_member_is_no_average():
    assert chosen_words(Average([net(colours=8, num_layers=1)])) == "colours after 1 step"
    assert (
        chosen_words(Average([net(hidden=4, features="standard")])) == "gcn, 2 hops, trained layer, standard features"
    )


def test_draws_of_one_member_are_one():
    drawn = [RandomNet(3, 2, seed=seed, config=NetConfig(backbone="gin", width=8)) for seed in (0, 1000)]
    model = Average([drawn[0], net(num_layers=1), drawn[1]], weights=[0.5, 1.0, 0.5])
    assert chosen_words(model) == "the average of 2, gin, 2 hops, 8 random features, 2 draws; gcn, 1 hop"
