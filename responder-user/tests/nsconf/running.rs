//! Imported configurations, started.
