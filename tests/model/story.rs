//! Counter-examples as stories.
