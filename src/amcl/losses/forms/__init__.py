"""Forms of the contrastive loss: one file each, or one of another package that registers it."""

from amcl.losses.forms.base import FORMS, OPTIONS, Form, register_form

__all__ = ["FORMS", "OPTIONS", "Form", "register_form"]
