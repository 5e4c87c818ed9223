"""Forms of the contrastive loss: one file each, or one of another package that registers it."""

from amcl.losses.forms.base import Form, find_form, form_names, register_form, unregister_form

__all__ = ["Form", "find_form", "form_names", "register_form", "unregister_form"]
