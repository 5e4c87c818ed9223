"""The paper's equations as literal loops over Python floats, with no tensor in them."""
