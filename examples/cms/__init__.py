"""A small content management system: SQLite, 45 tools, rules, memory and fake web services.

async with open_cms(folder) as cms, cms.toolbox() as box:
    session = await box.session("ann")
    await session.call("tool_search", {"query": "find the hero image"})
"""
