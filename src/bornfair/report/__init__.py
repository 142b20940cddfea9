"""What a person looks at: the facts about a model as one HTML page, a Markdown card or JSON."""

from bornfair.quantification.records import Affected, Confident, Estimate, Group, People, Shares
from bornfair.report.certificate_page import certificate_document, render
from bornfair.report.facts import (
    CertificateFacts,
    Comparison,
    Document,
    DomainFacts,
    Favourable,
    FeatureFacts,
    GroupMetrics,
    Histogram,
    HistoryPoint,
    Metrics,
    Pair,
    Proxy,
    Repair,
)
from bornfair.report.report import Report, from_json, to_html, to_json, to_markdown

__all__ = [
    "Affected", "CertificateFacts", "Comparison", "Confident", "Document", "DomainFacts", "Estimate",
    "Favourable", "FeatureFacts", "Group", "GroupMetrics", "Histogram", "HistoryPoint", "Metrics", "Pair",
    "People", "Proxy", "Repair", "Report", "Shares", "certificate_document", "from_json", "render", "to_html",
    "to_json", "to_markdown",
]  # fmt: skip
