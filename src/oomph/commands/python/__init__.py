"""Python sources that start a server, read as syntax trees and never run."""
