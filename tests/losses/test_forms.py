"""Forms of the contrastive loss that a user registers."""

import pytest
import torch

from amcl.cli.pretrain import parse
from amcl.losses import ContrastiveLoss
from amcl.losses.forms import FORMS, Form, register_form
from amcl.temperature import ConstantTemperature


@pytest.fixture
def margin():
    @register_form
    class MarginForm(Form):
        name = "margin"
        takes_top_k = True

        def contrast(self, loss, pairs, prior_tau):
            return pairs.s_neg.mean(-1) - pairs.s_pos.squeeze(-1) + loss.beta, pairs

    yield MarginForm
    FORMS.unregister("margin")


def test_a_form_of_a_user_is_the_loss_of_each_anchor(margin):
    z0, z1 = torch.nn.functional.normalize(torch.randn(2, 2, 6, 4), dim=-1)
    loss, stats = ContrastiveLoss(
        2, ConstantTemperature(0.5), form="margin", top_k=3, negatives="other_view"
    )(z0, z1, return_stats=True)
    s = z0 @ z1.mT
    positive = s.diagonal(dim1=1, dim2=2)
    hardest = s.masked_fill(torch.eye(6, dtype=torch.bool), -9).topk(3).values.mean(-1)
    torch.testing.assert_close(loss, (hardest - positive).mean())
    assert stats.terms.keys() >= {"positive", "negative"}


def test_a_form_of_a_user_is_an_option(margin):
    settings = parse(["--data", "builtin", "--form", "margin", "--top-k", "5"]).settings
    assert (settings.method.form, settings.method.top_k) == ("margin", 5)
    with pytest.raises(ValueError, match="--form has no choice 'margn': did you mean margin"):
        parse(["--data", "builtin", "--form", "margn"])


def test_an_unknown_form_is_named_with_the_nearest():
    with pytest.raises(ValueError, match="there is no form 'softmx': did you mean 'softmax'"):
        ContrastiveLoss(1, ConstantTemperature(0.5), form="softmx")
    assert "margin" not in FORMS
