"""Forms of the contrastive loss: those that a user registers, their options and parameters."""

import pytest
import torch

from amcl import functional as F
from amcl.cli.pretrain import parse
from amcl.config import Config
from amcl.config.fields import with_values
from amcl.losses import ContrastiveLoss
from amcl.losses.forms import FORMS, Form, register_form
from amcl.losses.pairs import Compared
from amcl.search.space import space_from
from amcl.sweep.grid import grid
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


def gradients(loss, z0, z1):
    z0 = z0.clone().requires_grad_()
    loss(z0, z1).backward()
    return z0.grad


def test_weights_of_dclw_pass_no_gradient(monkeypatch):
    z0, z1 = torch.randn(2, 2, 6, 4, dtype=torch.float64)
    loss = ContrastiveLoss(2, ConstantTemperature(0.5), form="dclw")
    found = gradients(loss, z0, z1)
    s_pos = torch.nn.functional.cosine_similarity(z0, z1, dim=-1).unsqueeze(-1)
    fixed = F.mises_fisher_weights(torch.cat([s_pos, s_pos], dim=1), 0.5)
    monkeypatch.setattr(F, "mises_fisher_weights", lambda s, sigma: fixed)
    torch.testing.assert_close(found, gradients(loss, z0, z1))
    assert (fixed.std() > 0.1).all()


def test_weights_of_positives_need_a_decoupled_loss():
    one, tau = torch.ones(1, 2, 1), torch.tensor([0.5])
    with pytest.raises(ValueError, match="positive_in_denominator=False"):
        F.softmax_contrast(one, tau, one, tau, positive_weight=one)


def test_the_bias_of_the_sigmoid_is_a_parameter_of_the_loss_and_learns():
    loss = ContrastiveLoss(2, ConstantTemperature(0.1), form="sigmoid")
    assert dict(loss.named_parameters()).keys() == {"contrast_form.bias"}
    assert loss.state_dict()["contrast_form.bias"] == -10
    z0, z1 = torch.randn(2, 2, 16, 8)
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.1)
    values = []
    for _ in range(100):
        value = loss(z0, z1)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < 0.9 * values[0]
    assert loss.contrast_form.bias > -10


def test_forms_that_have_no_parameters_add_none_to_the_loss():
    for form in ("softmax", "max", "dcl", "dclw", "hard"):
        assert not ContrastiveLoss(2, ConstantTemperature(0.1), form=form).state_dict()


def test_a_form_that_reads_values_it_never_computed_gets_an_error():
    one, tau = torch.ones(1, 2, 1), torch.tensor([0.5])
    loss = ContrastiveLoss(1, ConstantTemperature(0.5), form="dclw")
    with pytest.raises(ValueError, match=r"Form\.anchor_values"):
        loss.contrast_form.contrast(loss, Compared(one, tau, one, tau, None), 0.5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--form softmax --hard-beta 2", "--form softmax takes no --hard-beta.*use --form hard"),
        ("--form dcl --debias 0.1", "--form dcl takes no --debias 0.1: use --form hard"),
        ("--form hard --dclw-sigma 1", "--form hard takes no --dclw-sigma.*use --form dclw"),
        ("--form dclw --sigmoid-bias -5", "takes no --sigmoid-bias -5.0: use --form sigmoid"),
        ("--form dcl --no-positive-in-denominator", "--no-positive-in-denominator belongs to"),
        ("--form sigmoid --no-positive-in-denominator", "this run has --form sigmoid"),
    ],
)
def test_options_of_other_forms_are_errors(words, message):
    with pytest.raises(ValueError, match=message):
        parse(["--data", "builtin", *words.split()])


@pytest.mark.parametrize(
    ("words", "attribute", "value"),
    [
        ("--form hard --hard-beta 2 --debias 0", "hard_beta", 2.0),
        ("--form hard --no-positive-in-denominator", "debias", 0.1),
        ("--form dclw --dclw-sigma 0.7", "sigma", 0.7),
        ("--form sigmoid --sigmoid-bias -5", "bias", -5.0),
        ("--form sigmoid", "bias", -10.0),
    ],
)
def test_options_of_a_form_reach_the_loss(words, attribute, value):
    settings = parse(["--data", "builtin", *words.split()]).settings.method
    form = settings.make_loss("both_views").contrast_form
    assert form.name == settings.form
    assert getattr(form, attribute) == value


def test_a_file_that_says_where_the_positive_is_gets_an_error(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('[method]\nname = "simclr"\nform = "dcl"\npositive_in_denominator = true\n')
    with pytest.raises(ValueError, match=r"positive_in_denominator = True belongs to .*--form dcl"):
        parse(["--config", str(file)])


def test_another_form_drops_the_options_of_the_last_one():
    hard = with_values(Config(), {"form": "hard", "hard_beta": 2.0})
    assert with_values(hard, {"form": "dcl"}).method.hard_beta is None
    assert with_values(hard, {"form": "hard"}).method.hard_beta == 2.0
    assert hard.method.published().hard_beta is None


def test_forms_and_their_options_are_searched_and_swept():
    space = space_from(Config(), ["form=softmax,hard,sigmoid", "hard_beta=0:2", "debias=0.05,0.1"])
    assert next(iter(space)) == "form"
    with pytest.raises(ValueError, match="hard_beta has no effect with form=softmax,dcl"):
        space_from(Config(), ["form=softmax,dcl", "hard_beta=0:2"])
    points = grid(Config(), {"form": ["dcl", "hard"], "hard_beta": ["0.5", "1"]})
    names = ["form=dcl", "form=hard,hard_beta=0.5", "form=hard,hard_beta=1.0"]
    assert [point.name for point in points] == names
